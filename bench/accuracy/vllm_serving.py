#!/usr/bin/env python3
"""vLLM's prompts and tokens with random weights: what a turn of prompts takes, and a token more for every request.

    vllm_serving.py NAME [--tp GPUS] [--eager] [--kernels] [--profiles | --times]
        # prints a line of JSON for each turn: what, ms, of further tokens also turn_ms, in which their prompts are,
        # and of the profiled turns what the GPU did, by kernel with --kernels

The engine runs in this process (`VLLM_ENABLE_V1_MULTIPROCESSING=0`), and with several GPUs a worker for each in a process of its own,
as vLLM starts them. The profiles are the first worker's.
The same on a GPU and in a simulation (README.md, "Serving").
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # functions are sent to workers
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # FlashInfer's would be compiled at the first run
os.environ.setdefault("HF_HUB_OFFLINE", "1")

PROMPTS, LENGTH = 8, 1024             # of a turn of prompts, which the engine takes in one step
BATCHES, CONTEXT = (1, 32, 256), 256  # requests that get a token at once, and the tokens of each before
TOKENS, TURNS = 32, 3

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 128256, "max_position_embeddings": 8192,
         "num_attention_heads": 32, "num_key_value_heads": 8, "bos_token_id": 1, "eos_token_id": 2}
LLAMA_8B = LLAMA | {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32}
QWEN = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "head_dim": 128, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "vocab_size": 151936, "max_position_embeddings": 8192, "num_attention_heads": 32, "attention_bias": False,
        "bos_token_id": 1, "eos_token_id": 2}
# Name: what config.json says, and settings of vllm.LLM. Layers of the last two are fewer than those that are published.
MODELS = {
    "llama_1b": (LLAMA | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}, {}),
    "llama_8b_fp8": (LLAMA_8B, {"quantization": "fp8"}),
    "qwen3_8b": (QWEN | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
                         "num_hidden_layers": 36, "num_key_value_heads": 8}, {}),
    "qwen3_06b": (QWEN | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
                          "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "tie_word_embeddings": True}, {}),
    "olmo2_1b": ({"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "hidden_act": "silu", "hidden_size": 2048,
                  "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 100352,
                  "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "tie_word_embeddings": False,
                  "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "attention_bias": False}, {}),
    "smollm2_360m": (LLAMA | {"hidden_size": 960, "intermediate_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 15,
                              "num_key_value_heads": 5, "vocab_size": 49152, "tie_word_embeddings": True, "rms_norm_eps": 1e-5}, {}),
    "gemma3_1b": ({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh",
                   "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1,
                   "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 512, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
                   "vocab_size": 262144, "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16", "bos_token_id": 2,
                   "eos_token_id": 1}, {}),
    "qwen3_moe": (QWEN | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
                          "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True,
                          "decoder_sparse_step": 1, "mlp_only_layers": [], "num_hidden_layers": 16, "num_key_value_heads": 4}, {}),
    "deepseek_v2_lite": ({"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_act": "silu", "hidden_size": 2048,
                          "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
                          "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1,
                          "topk_method": "greedy", "scoring_func": "softmax", "norm_topk_prob": False, "routed_scaling_factor": 1.0,
                          "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                          "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 9, "rms_norm_eps": 1e-6,
                          "rope_theta": 10000.0, "vocab_size": 102400, "max_position_embeddings": 8192, "attention_bias": False,
                          "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}, {}),
}


def started(name, gpus, eager):
    from vllm import LLM
    config, settings = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        return LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, enforce_eager=eager, max_model_len=2048,
                   gpu_memory_utilization=0.8, tensor_parallel_size=gpus, enable_prefix_caching=False, **settings)


def turn(model, requests, length, tokens):
    """Milliseconds from REQUESTS prompts of LENGTH to TOKENS tokens of each."""
    from vllm import SamplingParams
    how = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    prompts = [{"prompt_token_ids": [5 + (31 * request + place) % 30000 for place in range(length)]} for request in range(requests)]
    begin = time.perf_counter()
    answers = model.generate(prompts, how, use_tqdm=False)
    took = 1000 * (time.perf_counter() - begin)
    assert all(len(answer.outputs[0].token_ids) == tokens for answer in answers)
    return took


def timed(name, model):
    times = [turn(model, PROMPTS, LENGTH, 1) for _ in range(TURNS + 1)][1:]
    print(json.dumps({"model": name, "what": "prompts", "ms": round(statistics.median(times), 3), "all": [round(t, 3) for t in times]}), flush=True)
    for batch in BATCHES:
        # The prompts' part is the same in both, so that the difference is that of the further tokens.
        turns = [(turn(model, batch, CONTEXT, 1 + TOKENS), turn(model, batch, CONTEXT, 1)) for _ in range(TURNS + 1)][1:]
        times = [(whole - prompts) / TOKENS for whole, prompts in turns]
        print(json.dumps({"model": name, "what": f"token of {batch}", "ms": round(statistics.median(times), 3),
                          "all": [round(t, 3) for t in times], "turn_ms": round(statistics.median(whole for whole, _ in turns), 3)}), flush=True)


def begin_profile(worker):
    import torch
    worker.profile_of_turn = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    worker.profile_of_turn.start()


def end_profile(worker):
    import torch
    from compiled_models import kernels_of
    torch.cuda.synchronize()
    worker.profile_of_turn.stop()
    return kernels_of(worker.profile_of_turn)


def profiled(model, called, name, what, kernels):
    model.collective_rpc(begin_profile)
    called()
    from compiled_models import tell  # brings PyTorch; vLLM comes first, as in its own programs
    tell(model.collective_rpc(end_profile)[0], {"model": name, "what": what}, f"{name} {what}", kernels, letters=160)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("--tp", type=int, default=1, help="GPUs that share each layer")
    parser.add_argument("--eager", action="store_true", help="nothing is compiled, no CUDA graphs")
    parser.add_argument("--kernels", action="store_true")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--profiles", action="store_true", help="nothing else is timed")
    which.add_argument("--times", action="store_true", help="nothing is profiled")
    options = parser.parse_args()
    model = started(options.name, options.tp, options.eager)
    name = options.name + (f" on {options.tp}" if options.tp > 1 else "") + (" eager" if options.eager else "")

    if not options.profiles:
        timed(name, model)
    if options.times:
        return
    turn(model, PROMPTS, LENGTH, 1)
    profiled(model, lambda: turn(model, PROMPTS, LENGTH, 1), name, "prompts", options.kernels)
    for batch in BATCHES:
        profiled(model, lambda batch=batch: turn(model, batch, 1, 1 + TOKENS), name, f"tokens of {batch}", options.kernels)


if __name__ == "__main__":
    main()
