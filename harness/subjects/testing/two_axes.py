"""A step of a model that is cut twice, by tensor parallelism and by FSDP, on four ranks: what the emitter
takes for a rank's part is that part of the whole."""
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import shardproof_trace
from lm_ranks import start_ranks

if "RANK" not in os.environ:
    start_ranks(4)
dist.init_process_group("gloo", init_method="file://" + os.environ["LM_STORE"],
                        rank=int(os.environ["RANK"]), world_size=4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 14), torch.nn.Linear(14, 5))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
trace = shardproof_trace.Trace(model, optimizer)
loss = model(torch.ones(2, 6)).square().sum()
loss.backward()
trace.reduced()
for name, parameter in model.named_parameters():
    for tensor in parameter.detach(), parameter.grad:
        whole, part = tensor.full_tensor(), shardproof_trace.local_of(tensor)
        offsets, shape = shardproof_trace.place_of(name, tensor)
        assert shape == list(whole.shape)
        box = tuple(slice(lo, lo + size) for lo, size in zip(offsets, part.shape))
        assert torch.equal(whole[box], part), (name, offsets)
optimizer.step()
trace.step(0, loss, 1.0)
trace.end()
dist.destroy_process_group()
