#!/usr/bin/env python3
"""A subject of `accept --subject`: a tiny language model trained on 1 or 2 ranks, in the ways PyTorch has
(lm_modes.py), with mistakes on demand (lm_mistakes.py). Starts its ranks itself, unless torchrun did.
"""
import argparse
import datetime
import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict,
                                                     get_optimizer_state_dict,
                                                     set_model_state_dict,
                                                     set_optimizer_state_dict)

import shardproof_trace
from lm_data import SIZE, batch, rows_of_step
from lm_mistakes import MISTAKES
from lm_model import IGNORED
from lm_modes import MODES
from lm_ranks import start_ranks

RATE, WARMUP, MAX_NORM = 3e-3, 4, 0.25  # the norm of every gradient is above it
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)  # stages have optimizers of their own
DEADLINE = datetime.timedelta(seconds=10)  # of every collective: a stopped rank ends the job


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=MODES, default="single")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--save-at", type=int, default=0, help="before this step; 0: never")
    parser.add_argument("--ckpt", help="folder of the checkpoint")
    parser.add_argument("--resume", action="store_true", help="from the checkpoint, if there is one")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--reversed", action="store_true", help="the rows of a rank's batch")
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches of a step")
    parser.add_argument("--ragged-start", action="store_true", help="initial values by rank")
    parser.add_argument("--mistake", choices=MISTAKES)
    return parser.parse_args()


class Training:
    def __init__(self, args, mode):
        self.args, self.mode, self.done, self.sampler = args, mode, 0, 0
        model = mode.build(seed=1 + (mode.rank if args.ragged_start else 0))
        self.model = mode.wrap(model.to(getattr(torch, args.dtype)))  # float32's very values
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, foreach=False)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / WARMUP))

    def state(self, moments=True):
        state = {"model": get_model_state_dict(self.model), "done": self.done,
                 "sampler": self.sampler, "schedule": self.schedule.state_dict()}
        if moments:
            state["optimizer"] = get_optimizer_state_dict(self.model, self.optimizer, options=FLAT)
        return state

    def save(self, path):
        """Under another name until it is whole."""
        draft = path + ".part"
        if self.mode.rank == 0:
            shutil.rmtree(draft, ignore_errors=True)
            shutil.rmtree(path, ignore_errors=True)
        dist.barrier()
        dcp.save(self.state(), checkpoint_id=draft)
        if self.mode.rank == 0:
            os.rename(draft, path)
        dist.barrier()
        self.mode.saved(path)

    def load(self, path):
        restores = self.mode.restores
        state = self.state("moments" in restores)
        dcp.load(state, checkpoint_id=path)
        set_model_state_dict(self.model, state["model"])
        if "moments" in restores:
            set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"], options=FLAT)
        if "schedule" in restores:
            self.schedule.load_state_dict(state["schedule"])
            for group, rate in zip(self.optimizer.param_groups, self.schedule.get_last_lr()):
                group["lr"] = rate
        if "sampler" in restores:
            self.sampler = state["sampler"]
        self.done = state["done"]

    def step(self, trace):
        mode = self.mode
        ids = mode.rows(rows_of_step(self.sampler))
        if self.args.reversed:
            ids = ids[::-1]
        inputs, labels = batch(ids)
        counted = int((labels != IGNORED).sum())
        parts = list(zip(inputs.chunk(self.args.accumulate), labels.chunk(self.args.accumulate)))
        loss = mode.whole_loss(
            mode.gradients(self.model, parts, mode.tokens_of_step(counted)))
        trace.reduced()
        norm = mode.norm(self.model)
        for parameter in self.model.parameters():
            parameter.grad.mul_(min(1.0, MAX_NORM / (norm + 1e-6)))
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        trace.step(self.done, loss, norm, counted, ids)
        self.sampler += 1
        self.done += 1
        return loss, norm

    def run(self):
        args = self.args
        if args.resume and args.ckpt and os.path.exists(args.ckpt):
            self.load(args.ckpt)
        trace = shardproof_trace.Trace(self.model, self.optimizer, first=self.done,
                                       coords=self.mode.coords(), data={"size": SIZE})
        while self.done < args.steps:
            loss, norm = self.step(trace)
            if self.mode.rank == 0:
                print(f"step {self.done - 1} loss {loss:.6f} norm {norm:.4f}", flush=True)
            if args.ckpt and self.done == args.save_at:
                with trace.checkpoint(args.ckpt):
                    self.save(args.ckpt)
        trace.end()


def main():
    args = arguments()
    torch.set_num_threads(1)
    if "RANK" not in os.environ:
        start_ranks(args.ranks)
    store = os.environ.get("LM_STORE")
    dist.init_process_group("gloo", init_method="file://" + store if store else None,
                            rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
                            timeout=DEADLINE)
    mode = MODES[args.mode]()
    if args.mistake:
        MISTAKES[args.mistake](mode)
    Training(args, mode).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
