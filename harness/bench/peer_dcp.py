#!/usr/bin/env python3
"""The peer of `shardproof bench checkpoint`: torch.distributed.checkpoint of an FSDP2-sharded state
over gloo ranks; no digest is taken and none is checked.

usage: peer_dcp.py --ranks 2 --megabytes 512 --directory DIR --repeats 2
prints one line of JSON: the medians of save and load in seconds.
"""
import argparse
import json
import os
import shutil
import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch import nn

PARAMETERS, WIDTH = 16, 1024


class State(nn.Module):
    def __init__(self, megabytes):
        super().__init__()
        rows = megabytes * 2**20 // 4 // PARAMETERS // WIDTH
        self.w = nn.ParameterList(nn.Parameter(torch.randn(rows, WIDTH)) for _ in range(PARAMETERS))


def timed(body):
    dist.barrier()
    start = time.perf_counter()
    body()
    dist.barrier()
    return time.perf_counter() - start


def run(rank, args, port):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    state = fully_shard(State(args.megabytes), mesh=init_device_mesh("cpu", (args.ranks,)))
    tensors = state.state_dict()
    saves, loads = [], []
    for _ in range(args.repeats):
        if rank == 0:
            shutil.rmtree(args.directory, ignore_errors=True)
        saves.append(timed(lambda: dcp.save(tensors, checkpoint_id=args.directory)))
        loads.append(timed(lambda: dcp.load(tensors, checkpoint_id=args.directory)))
    if rank == 0:
        shutil.rmtree(args.directory, ignore_errors=True)
        print(json.dumps({"save": statistics.median(saves), "load": statistics.median(loads)}),
              flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    for name in ("ranks", "megabytes", "repeats"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--directory", required=True)
    args = parser.parse_args()
    mp.spawn(run, (args, 20000 + os.getpid() % 20000), nprocs=args.ranks)


if __name__ == "__main__":
    main()
