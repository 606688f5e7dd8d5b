#!/usr/bin/env python3
"""PyTorch as a peer of the readers of other people's checkpoints.

usage: foreign.py check | write DIR
check exits 77 without torch. write makes DIR/model.pt and DIR/nano.pt (torch.save), DIR/dcp (two
ranks of torch.distributed.checkpoint) and damaged metadata beside it, and prints the SHA-256 of each
tensor's elements as JSON. The folder foreign/ beside this file was made by `write`.
"""
import hashlib
import json
import pathlib
import pickle
import sys

try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
except ImportError as missing:
    print(missing)
    sys.exit(77)


def ramp(*shape, start=0.0):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) + start).reshape(shape)


def model():
    base = ramp(6, 4, start=100)
    return {"weight": ramp(4, 6), "bias": ramp(5).to(torch.bfloat16),
            "turned": base.t(), "rows": base[1:3], "step": torch.tensor(7),
            "half": torch.nn.Parameter(ramp(3).half()), "none": torch.empty(0, 3)}


def torch_state():
    moments = {i: {"step": torch.tensor(3.0), "exp_avg": ramp(2, i + 1)} for i in range(2)}
    return {"model": model(), "optimizer": {"state": moments, "param_groups": [{"lr": 0.1}]},
            "iteration": 3, "note": "two words"}


def nano_state(layers=2):
    weights = {"transformer.wte.weight": ramp(8, 4), "transformer.wpe.weight": ramp(6, 4)}
    for layer in range(layers):
        weights[f"transformer.h.{layer}.ln_1.weight"] = ramp(4)
    return {"model": weights, "model_args": {"n_layer": 2, "n_head": 2, "n_embd": 4,
                                             "block_size": 6, "vocab_size": 8}, "iter_num": 5}


def dcp_state():
    return {"rows": ramp(4, 3), "columns": ramp(3, 4, start=50), "bias": ramp(5), "step": 11}


def save_dcp(rank, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    dist.init_process_group("gloo", init_method=f"file://{folder}.rendezvous", rank=rank,
                            world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = dcp_state()
    state["rows"] = distribute_tensor(state["rows"], mesh, [Shard(0)])
    state["columns"] = distribute_tensor(state["columns"], mesh, [Shard(1)])
    dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()


def damaged_metadata(folder, out):
    """The metadata with a hole, an overlap, a chunk out of bounds, and without a place of one."""
    def change(name, body):
        metadata = pickle.loads((folder / ".metadata").read_bytes())
        body(metadata)
        (out / f"{name}.metadata").write_bytes(pickle.dumps(metadata))

    def chunks(metadata):
        return metadata.state_dict_metadata["rows"].chunks

    def overlap(metadata):
        old = chunks(metadata)[1].offsets
        chunks(metadata)[1].offsets = torch.Size((1, 0))
        for index, place in list(metadata.storage_data.items()):
            if index.fqn == "rows" and index.offset == old:
                moved = type(index)(index.fqn, torch.Size((1, 0)), index.index)
                metadata.storage_data[moved] = metadata.storage_data.pop(index)

    def out_of_bounds(metadata):
        metadata.state_dict_metadata["rows"].size = torch.Size((3, 3))

    def no_place(metadata):
        gone = [index for index in metadata.storage_data if index.fqn == "bias"]
        del metadata.storage_data[gone[0]]

    change("hole", lambda metadata: chunks(metadata).pop())
    change("overlap", overlap)
    change("bounds", out_of_bounds)
    change("place", no_place)


def digests(tensors):
    out = {}
    for name, tensor in tensors.items():
        if torch.is_tensor(tensor):
            data = tensor.detach().contiguous().flatten().view(torch.uint8) if tensor.numel() else None
            out[name] = hashlib.sha256(b"" if data is None else data.numpy().tobytes()).hexdigest()
    return out


def write(out):
    out = pathlib.Path(out).resolve()
    torch.save(torch_state(), out / "model.pt")
    torch.save(nano_state(), out / "nano.pt")
    torch.save(nano_state(layers=1), out / "nano_short.pt")
    torch.save(ramp(4, 3), out / "rows.pt")
    torch.multiprocessing.spawn(save_dcp, args=(str(out / "dcp"),), nprocs=2)
    (out / "dcp.rendezvous").unlink(missing_ok=True)
    damaged_metadata(out / "dcp", out)
    flat = {f"model.{name}": tensor for name, tensor in model().items()}
    print(json.dumps({"model.pt": digests(flat), "dcp": digests(dcp_state())}))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
