#!/usr/bin/env python3
"""The peer of `shardproof bench step`: a plain PyTorch GPT on gloo, under DistributedDataParallel
(--mode ddp) or fully sharded by FSDP2, a unit a block (--mode fsdp).

One compute thread a rank; the timed step is forward, backward (with the wrapper's overlapped
communication), clip_grad_norm_, fused-by-foreach AdamW, zero_grad. Tokens are drawn before the
clock starts.
usage: peer.py --mode ddp --ranks 2 --layers 2 --width 32 --heads 4 --vocabulary 64 --sequence 16
       --batch 4 --steps 60      prints one line of JSON: parameters, median step in seconds, loss.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F

WARM_UP = 3


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        split = self.qkv(self.ln1(x)).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embed = nn.Embedding(args.vocabulary, args.width)
        self.pos = nn.Embedding(args.sequence, args.width)
        self.blocks = nn.ModuleList(Block(args.width, args.heads) for _ in range(args.layers))
        self.ln_f = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def shard(gpt, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (ranks,))
    for block in gpt.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(gpt, mesh=mesh)


def train(rank, args, port):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    gpt = Gpt(args)
    parameters = sum(p.numel() for p in gpt.parameters())
    ddp = args.mode == "ddp"
    model = nn.parallel.DistributedDataParallel(gpt) if ddp else shard(gpt, args.ranks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    generator = torch.Generator().manual_seed(rank)
    seconds = []
    for step in range(WARM_UP + args.steps):
        text = torch.randint(0, args.vocabulary, (args.batch, args.sequence + 1),
                             generator=generator)
        start = time.perf_counter()
        logits = model(text[:, :-1])
        loss = F.cross_entropy(logits.view(-1, args.vocabulary), text[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step >= WARM_UP:
            seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"parameters": parameters, "seconds": statistics.median(seconds),
                          "loss": loss.item()}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("ddp", "fsdp"), required=True)
    for name in ("ranks", "layers", "width", "heads", "vocabulary", "sequence", "batch", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    args = parser.parse_args()
    mp.spawn(train, (args, 20000 + os.getpid() % 20000), nprocs=args.ranks)


if __name__ == "__main__":
    main()
