"""Training of a GPT with Megatron-core, in the way of Megatron's own pretrain_gpt: mock data, mixed precision, clipped
gradients, and its checks for NaN. train_gpt.py [--tp N] [--pp N] [--vp LAYERS] [--cp N] [--ep N --experts N] ...
"""
import argparse
import os
import time

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDatasetConfig, MockGPTDataset
from megatron.core.distributed import (DistributedDataParallel, DistributedDataParallelConfig,
                                       finalize_model_grads)
from megatron.core.enums import ModelType
from megatron.core.models.gpt.gpt_layer_specs import (get_gpt_layer_local_spec,
                                                      get_gpt_layer_with_transformer_engine_spec)
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.num_microbatches_calculator import (get_num_microbatches,
                                                       init_num_microbatches_calculator)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.rerun_state_machine import (RerunDataIterator, RerunMode,
                                               get_rerun_state_machine,
                                               initialize_rerun_state_machine)
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_block import (TransformerBlockSubmodules,
                                                         get_num_layers_to_build)
from megatron.core.utils import get_model_config

arguments = argparse.ArgumentParser()
for name, default in dict(tp=1, pp=1, vp=0, cp=1, ep=1, experts=0, layers=4, hidden=512, ffn=0, heads=8,
                          length=512, words=8192, micro_batch=2, global_batch=0, steps=4).items():
    arguments.add_argument("--" + name.replace("_", "-"), type=int, default=default)
arguments.add_argument("--sequence-parallel", action="store_true")
arguments.add_argument("--distributed-optimizer", action="store_true")
arguments.add_argument("--swiglu", action="store_true")
arguments.add_argument("--te", action="store_true", help="Transformer Engine's layers, as Megatron's own default")
arguments.add_argument("--no-check", action="store_true", help="no checks for NaN")
options = arguments.parse_args()

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", local))
rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
parallel_state.initialize_model_parallel(
    tensor_model_parallel_size=options.tp, pipeline_model_parallel_size=options.pp,
    virtual_pipeline_model_parallel_size=options.vp or None,
    context_parallel_size=options.cp, expert_model_parallel_size=options.ep,
    expert_tensor_parallel_size=1)
tensor_parallel.model_parallel_cuda_manual_seed(1)
initialize_rerun_state_machine(
    mode=RerunMode.DISABLED if options.no_check else RerunMode.VALIDATE_RESULTS)
data_parallel = world // (options.tp * options.pp * options.cp)
global_batch = options.global_batch or 4 * options.micro_batch * data_parallel
init_num_microbatches_calculator(rank, None, global_batch, options.micro_batch, data_parallel)

if options.experts and not moe_utils.HAVE_TE:
    moe_utils.te_general_gemm = None  # 0.16.1 asks for the name where Transformer Engine is missing, too
experts = dict(num_moe_experts=options.experts, moe_router_topk=2, moe_token_dispatcher_type="alltoall",
               moe_aux_loss_coeff=0.01, moe_grouped_gemm=options.te, add_bias_linear=False)
config = TransformerConfig(
    num_layers=options.layers, hidden_size=options.hidden, num_attention_heads=options.heads,
    ffn_hidden_size=options.ffn or 4 * options.hidden, bf16=True, params_dtype=torch.bfloat16,
    pipeline_dtype=torch.bfloat16, tensor_model_parallel_size=options.tp,
    pipeline_model_parallel_size=options.pp,
    virtual_pipeline_model_parallel_size=options.vp or None, context_parallel_size=options.cp,
    expert_model_parallel_size=options.ep, expert_tensor_parallel_size=1,
    sequence_parallel=options.sequence_parallel, bias_dropout_fusion=True,
    bias_activation_fusion=not options.experts, gated_linear_unit=options.swiglu,
    activation_func=torch.nn.functional.silu if options.swiglu else torch.nn.functional.gelu,
    hidden_dropout=0.0, attention_dropout=0.0,
    **(experts if options.experts else {}))


class Norm(torch.nn.RMSNorm):
    """Megatron-core's own norms with sequence parallelism need Apex or Transformer Engine."""

    def __init__(self, config, hidden_size, eps=1e-5, **_):
        super().__init__(hidden_size, eps)
        self.weight.sequence_parallel = config.sequence_parallel


def layers_of(index):
    if options.te:
        return get_gpt_layer_with_transformer_engine_spec(num_experts=options.experts or None, moe_grouped_gemm=bool(options.experts))
    layer = get_gpt_layer_local_spec(num_experts=options.experts or None)
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    count = get_num_layers_to_build(config, vp_stage=index)
    return TransformerBlockSubmodules(layer_specs=[layer] * count, layer_norm=Norm)


def make_part(index):
    """The part of the model that this rank holds; with an interleaved schedule, the one of that index."""
    part = GPTModel(
        config, layers_of(index),
        vocab_size=options.words, max_sequence_length=options.length,
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=index),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=index),
        share_embeddings_and_output_weights=False, position_embedding_type="rope",
        vp_stage=index)
    part.model_type = ModelType.encoder_or_decoder
    part = Float16Module(config, part.cuda())
    return DistributedDataParallel(
        config, DistributedDataParallelConfig(
            overlap_grad_reduce=True, use_distributed_optimizer=options.distributed_optimizer,
            check_for_nan_in_grad=not options.no_check), part,
        disable_bucketing=bool(index))


model = [make_part(index) for index in range(options.vp)] if options.vp else [make_part(None)]
for part in model:
    part.broadcast_params()
optimizer = get_megatron_optimizer(OptimizerConfig(
    optimizer="adam", lr=1e-4, min_lr=1e-5, bf16=True, params_dtype=torch.bfloat16, clip_grad=1.0,
    use_distributed_optimizer=options.distributed_optimizer), model)
scheduler = OptimizerParamScheduler(
    optimizer, init_lr=0.0, max_lr=1e-4, min_lr=1e-5, lr_warmup_steps=global_batch,
    lr_decay_steps=100 * global_batch, lr_decay_style="cosine", start_wd=0.01, end_wd=0.01,
    wd_incr_steps=100 * global_batch, wd_incr_style="constant")
get_model_config(model[0]).finalize_model_grads_func = finalize_model_grads
get_model_config(model[0]).grad_scale_func = optimizer.scale_loss
get_model_config(model[0]).no_sync_func = (
    [part.no_sync for part in model] if options.vp else model[0].no_sync)


class Vocabulary:
    """What a data set asks of a tokenizer."""
    unique_identifiers = {"class": "Vocabulary"}
    eod = 0
    pad = 1
    vocab_size = options.words


reads = parallel_state.get_tensor_model_parallel_rank() == 0


def batches():
    """Every rank takes part in the building; only those that read have anything then."""
    data, _, _ = BlendedMegatronDatasetBuilder(
        MockGPTDataset, [options.steps * global_batch * 2, 0, 0],
        lambda: reads,
        GPTDatasetConfig(random_seed=1, sequence_length=options.length, split="1,0,0",
                         reset_position_ids=False, reset_attention_mask=False,
                         eod_mask_loss=False, create_attention_mask=False,
                         tokenizer=Vocabulary())).build()
    if not reads:
        return None
    sampler = torch.utils.data.DistributedSampler(
        data, data_parallel, parallel_state.get_data_parallel_rank(), shuffle=False)
    loader = torch.utils.data.DataLoader(data, options.micro_batch, sampler=sampler)
    return RerunDataIterator(iter(loader))


def get_batch(iterator):
    """The first rank of each tensor parallel group reads; the others get it from there."""
    group = parallel_state.get_tensor_model_parallel_group()
    source = parallel_state.get_tensor_model_parallel_src_rank()
    types = dict(tokens=torch.int64, labels=torch.int64, position_ids=torch.int64,
                 loss_mask=torch.float32)
    row = next(iterator) if iterator is not None else None
    batch = {}
    for name, kind in types.items():
        if row is not None:
            batch[name] = row[name].clamp(max=options.words - 1).to("cuda", kind, non_blocking=True)
        else:
            batch[name] = torch.empty(options.micro_batch, options.length, dtype=kind, device="cuda")
        torch.distributed.broadcast(batch[name], source, group)
    return batch


def forward_step(iterator, part):
    batch = get_batch(iterator)

    def loss_of(output):
        mask = batch["loss_mask"].flatten().float()
        loss = (output.flatten().float() * mask).sum()
        if not options.no_check:
            for wrong, what in ((torch.isnan, "NaN"), (torch.isinf, "Inf")):
                get_rerun_state_machine().validate_result(
                    result=loss, rejection_func=wrong, tolerance=0.0, fatal=True,
                    message=f"found {what} in local forward loss calculation")
        count = mask.sum().to(torch.int)
        return loss, count, {"lm loss": torch.stack([loss.detach(), count.float()])}

    return part(batch["tokens"], batch["position_ids"], None, labels=batch["labels"]), loss_of


config.calculate_per_token_loss = True
iterators = [batches() for _ in model]
forward_backward = get_forward_backward_func()
machine = get_rerun_state_machine()
before = time.perf_counter()
for step in range(options.steps):
    while machine.should_run_forward_backward(iterators):
        for part in model:
            part.zero_grad_buffer()
        optimizer.zero_grad()
        losses = forward_backward(
            forward_step_func=forward_step, data_iterator=iterators if options.vp else iterators[0],
            model=model if options.vp else model[0], num_microbatches=get_num_microbatches(),
            seq_length=options.length, micro_batch_size=options.micro_batch, forward_only=False)
    stop, _, status = machine.should_checkpoint_and_exit()
    if stop:
        raise SystemExit(status)
    updated, norm, _ = optimizer.step()
    scheduler.step(increment=global_batch)
    loss = sum(float(row["lm loss"][0]) for row in losses) if losses else 0.0
    now = time.perf_counter()
    if rank == world - 1:
        print(f"step {step}: {1e3 * (now - before):.3f} ms, loss {loss}, gradient norm {norm}, "
              f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)
    before = now
torch.distributed.destroy_process_group()
print("training completed", flush=True)
if options.te:
    os._exit(0)  # destructors of 2.20 use names of functions that others have freed, and abort after NVRTC's compilations
