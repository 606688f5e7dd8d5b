#!/usr/bin/env python3
"""A training script of the kind people write: a classifier under DistributedDataParallel.

usage: torchrun --standalone --nproc-per-node N plain.py [--steps 6] [--save-at 3 --ckpt FILE [--resume]]
"""
import argparse
import os

import shardproof_trace
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 8  # of all ranks together


def points():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(24, 12, generator=generator)
    return TensorDataset(x, (x[:, :3].sum(1) > 0).long() + (x[:, 3:6].sum(1) > 0).long())


def save(path, model, optimizer, step):
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                    "step": step}, path + ".tmp")
        os.replace(path + ".tmp", path)
    dist.barrier()


def load(path, model, optimizer):
    state = torch.load(path)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--save-at", type=int, default=0)
    parser.add_argument("--ckpt", default="")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--double", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 3))
    if args.double:
        net = net.double()
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    dataset = points()
    sampler = DistributedSampler(dataset, seed=1)
    loader = DataLoader(dataset, batch_size=BATCH // dist.get_world_size(), sampler=sampler)
    step = load(args.ckpt, model, optimizer) if args.resume and os.path.exists(args.ckpt) else 0
    trace = shardproof_trace.Trace(model, optimizer, first=step, data={"size": len(dataset)})
    while step < args.steps:
        sampler.set_epoch(step // len(loader))
        for number, (x, y) in enumerate(loader):
            if number < step % len(loader):
                continue  # of an epoch that was resumed
            logits = model(x.double() if args.double else x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            trace.reduced()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            trace.step(step, trace.mean(loss), norm, len(y), list(sampler)[number * loader.batch_size:][:len(y)])
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss.item():.4f}")
            step += 1
            if step == args.save_at:
                with trace.checkpoint(args.ckpt): save(args.ckpt, model, optimizer, step)
            if step == args.steps:
                break
    trace.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
