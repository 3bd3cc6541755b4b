"""DeepSpeed with ZeRO: train.py STAGE [--offload] [--fused] [--profile] [--checkpoint] [--steps N] [--hidden N] [--layers N]

--offload keeps the optimizer on the CPU, --fused takes DeepSpeed's FusedAdam (which it compiles with
nvcc), --profile switches its flops profiler on.
"""
import argparse
import time

import deepspeed
import torch
from transformers import GPT2Config, GPT2LMHeadModel

arguments = argparse.ArgumentParser()
arguments.add_argument("stage", type=int)
arguments.add_argument("--offload", action="store_true")
arguments.add_argument("--fused", action="store_true")
arguments.add_argument("--profile", action="store_true")
arguments.add_argument("--checkpoint", action="store_true")
for name, default in dict(steps=4, hidden=512, layers=4).items():
    arguments.add_argument(f"--{name}", type=int, default=default)
arguments.add_argument("--local_rank", type=int, help="from the deepspeed launcher")
options = arguments.parse_args()

zero = {"stage": options.stage, "overlap_comm": True, "contiguous_gradients": True}
config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
          "gradient_clipping": 1.0, "bf16": {"enabled": True}, "steps_per_print": 1,
          "wall_clock_breakdown": True, "zero_optimization": zero}
if options.profile:
    config["flops_profiler"] = {"enabled": True, "profile_step": 2, "detailed": False}
model = GPT2LMHeadModel(GPT2Config(n_embd=options.hidden, n_layer=options.layers, n_head=options.hidden // 64,
                                   n_positions=512, use_cache=False))
optimizer = None
if options.offload:
    # DeepSpeed's own CPU Adam is compiled; PyTorch's is not.
    zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    config |= {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
else:
    config["optimizer"] = {"type": "AdamW",
                           "params": {"lr": 1e-4, "torch_adam": not options.fused}}
deepspeed.init_distributed("nccl")
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                  optimizer=optimizer, config=config)
tokens = torch.randint(50257, (4, 512), device=engine.device)
before = time.perf_counter()
for micro_step in range(2 * options.steps):
    loss = engine(input_ids=tokens, labels=tokens).loss
    engine.backward(loss)
    engine.step()
    if micro_step % 2:
        torch.cuda.synchronize()
        now = time.perf_counter()
        if engine.global_rank == 0:
            print(f"step {micro_step // 2}: {1e3 * (now - before):.3f} ms", flush=True)
        before = now
if options.checkpoint:
    engine.save_checkpoint("out/deepspeed", tag="last")
    engine.load_checkpoint("out/deepspeed", tag="last")
print("training completed", flush=True)
