"""A training loop with Accelerate, which takes the strategy from `accelerate launch`."""
import time

import torch
from accelerate import Accelerator
from transformers import GPT2Config, GPT2LMHeadModel

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model = GPT2LMHeadModel(GPT2Config(n_embd=512, n_layer=4, n_head=8, n_positions=512,
                                   use_cache=False))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.randint(50257, (256, 512))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
before = time.perf_counter()
for step, (batch,) in zip(range(12), loader):
    with accelerator.accumulate(model):
        loss = model(input_ids=batch, labels=batch).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        mean = accelerator.gather(loss.detach()).mean().item()
        now = time.perf_counter()
        accelerator.print(f"step {step // 2}: {1e3 * (now - before):.3f} ms, loss {mean}", flush=True)
        before = now
accelerator.print("training completed", flush=True)
accelerator.end_training()
