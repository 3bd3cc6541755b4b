"""Lightning's Trainer with a strategy: train.py ddp|fsdp FOLDER"""
import os
import sys
import time

import lightning
import torch
from torch import nn


class Timer(lightning.Callback):
    def on_train_batch_start(self, trainer, *_):
        self.before = time.perf_counter()

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if trainer.is_global_zero:
            print(f"step {index}: {1e3 * (time.perf_counter() - self.before):.3f} ms", flush=True)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))

    def training_step(self, batch, index):
        loss = (self.layers(batch[0]) - batch[0]).square().mean()
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, index):
        self.log("validation", self.layers(batch[0]).mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.layers.parameters())


strategy = sys.argv[1]
gpus, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
data = torch.utils.data.TensorDataset(torch.randn(1024, 256))
trainer = lightning.Trainer(
    accelerator="gpu", devices=gpus, num_nodes=world // gpus, strategy=strategy, max_steps=8,
    precision="bf16-mixed", gradient_clip_val=1.0 if strategy == "ddp" else None,
    enable_progress_bar=False, log_every_n_steps=1, default_root_dir=sys.argv[2],
    callbacks=[Timer()])
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=32, num_workers=1),
            torch.utils.data.DataLoader(data, batch_size=64))
print(f"training completed, {trainer.global_step} steps", flush=True)
