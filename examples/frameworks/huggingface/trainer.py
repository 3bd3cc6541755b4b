"""transformers.Trainer of a small Llama with random weights and tokens: trainer.py ddp|fsdp1|fsdp2 [--save] [--steps N]"""
import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(32000, (512,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


arguments = argparse.ArgumentParser()
arguments.add_argument("strategy", choices=["ddp", "fsdp1", "fsdp2"])
arguments.add_argument("--save", action="store_true")
arguments.add_argument("--steps", type=int, default=8)
options = arguments.parse_args()

more = {}
if options.strategy != "ddp":
    more = dict(fsdp="full_shard auto_wrap", fsdp_config={
        "version": int(options.strategy[-1]), "fsdp_version": int(options.strategy[-1]),
        "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]})
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
    intermediate_size=1536, vocab_size=32000, use_cache=False))
trainer = Trainer(model=model, train_dataset=Tokens(), args=TrainingArguments(
    output_dir="out/trainer", per_device_train_batch_size=4, max_steps=options.steps, logging_steps=2,
    bf16=True, report_to=[], disable_tqdm=True, max_grad_norm=1.0,
    save_strategy="steps" if options.save else "no", save_steps=4, **more))
result = trainer.train()
if trainer.is_world_process_zero():
    print(f"training completed, step of {1e3 * result.metrics['train_runtime'] / options.steps:.3f} ms",
          flush=True)
