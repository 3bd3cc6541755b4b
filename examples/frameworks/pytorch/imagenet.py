"""Training of a torchvision network on made-up images, one process that spawns one per GPU of its host
(torch.multiprocessing.spawn), as ImageNet scripts do: imagenet.py [--arch resnet18]"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def worker(gpu, options, gpus):
    host, hosts = int(os.environ.get("GROUP_RANK", 0)), options.hosts
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", init_method=options.url, world_size=hosts * gpus,
                            rank=host * gpus + gpu)
    model = torchvision.models.get_model(options.arch).cuda(gpu)
    model = DistributedDataParallel(model, device_ids=[gpu])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    data = torchvision.datasets.FakeData(options.batch * options.steps * hosts * gpus,
                                         (3, 224, 224), 1000, torchvision.transforms.ToTensor())
    sampler = torch.utils.data.distributed.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, options.batch, sampler=sampler,
                                         num_workers=options.workers, pin_memory=True)
    before = time.perf_counter()
    for step, (images, labels) in enumerate(loader):
        images = images.cuda(gpu, non_blocking=True)
        labels = labels.cuda(gpu, non_blocking=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        now = time.perf_counter()
        if dist.get_rank() == 0:
            print(f"step {step}: {1e3 * (now - before):.3f} ms", flush=True)
        before = now
    dist.destroy_process_group()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--arch", default="resnet18")
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--steps", type=int, default=4)
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--hosts", type=int, default=1)
    arguments.add_argument("--url", default="tcp://127.0.0.1:23456")
    options = arguments.parse_args()
    gpus = torch.cuda.device_count()
    if gpus == 0:
        raise SystemExit("no GPU found")
    mp.spawn(worker, nprocs=gpus, args=(options, gpus))
    print(f"training completed on {gpus} GPUs", flush=True)
