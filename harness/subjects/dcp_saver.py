#!/usr/bin/env python3
"""torch.distributed.checkpoint as the subject of a crash sweep: one process, plain overwriting.

usage: dcp_saver.py save ROOT N   saves a state that is a function of N into ROOT/checkpoint
       dcp_saver.py load ROOT     loads it, prints the sums that say which N its tensors are of
"""
import sys

import torch
import torch.distributed.checkpoint as dcp


def state(n):
    return {"weight": torch.full((64, 64), float(n)), "moment": torch.full((64, 64), -float(n)),
            "step": torch.tensor(n)}


def main(verb, root, n="0"):
    where = root + "/checkpoint"
    tensors = state(int(n))
    if verb == "save":
        dcp.save(tensors, checkpoint_id=where, no_dist=True)
    else:
        dcp.load(tensors, checkpoint_id=where, no_dist=True)
        print({name: tensor.double().sum().item() for name, tensor in tensors.items()})


main(*sys.argv[1:])
