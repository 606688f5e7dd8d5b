"""PyTorch's side of flight_peer_test: usage: flight_peer.py WORK. Exit 77 without PyTorch.

Judges every folder of dumps in WORK/ours by PyTorch's own analyser (its words go to WORK/ours.json),
makes dumps of two real gloo ranks in WORK/gloo and WORK/gloo_json, and the same in WORK/nccl as NCCL
ranks would write them (other names and the ranks of the group: a CPU build has no NCCL), which
PyTorch's analyser judges as well (WORK/nccl.json).
"""
import contextlib
import io
import json
import logging
import os
import pathlib
import pickle
import sys

try:
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json
    from torch.distributed.flight_recorder import fr_trace
except ImportError as error:
    print(f"no PyTorch with a flight recorder: {error}")
    sys.exit(77)


def judged(folder):
    words = io.StringIO()
    handler = logging.StreamHandler(words)
    loggers = [logging.getLogger()] + [
        logging.getLogger(name) for name in list(logging.root.manager.loggerDict)
    ]
    for logger in loggers:
        logger.addHandler(handler)
    with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
        try:
            fr_trace.main([str(folder)])
        except (Exception, SystemExit) as error:  # its words are the result
            words.write(f"{type(error).__name__}: {error}")
    for logger in loggers:
        logger.removeHandler(handler)
    return words.getvalue()


def judge_all(work, kind):
    found = {folder.name: judged(folder) for folder in sorted((work / kind).iterdir())}
    (work / f"{kind}.json").write_text(json.dumps(found))


def gloo_rank(work, scenario, rank):
    """Issues without waiting, so that no deadline is needed, and dumps."""
    dist.init_process_group("gloo", init_method=f"file://{work}/{scenario}.store", rank=rank,
                            world_size=2)
    x = torch.ones(6)
    dist.all_reduce(x)
    dist.barrier()
    works = []
    if scenario == "mismatch":
        call = dist.all_reduce if rank == 0 else lambda y, async_op: dist.broadcast(
            y, 0, async_op=async_op)
        works.append(call(x, async_op=True))
    elif scenario == "missing" and rank == 0:
        works.append(dist.all_reduce(x, async_op=True))
    (work / "gloo" / scenario / f"trace_{rank}").write_bytes(_dump_fr_trace(True, True, False))
    text = _dump_fr_trace_json(True, False)
    (work / "gloo_json" / scenario / f"trace_{rank}.json").write_bytes(
        text if isinstance(text, bytes) else text.encode())


def run_gloo(work):
    children = []
    for scenario in ("clean", "mismatch", "missing"):
        for kind in ("gloo", "gloo_json"):
            (work / kind / scenario).mkdir(parents=True)
        for rank in range(2):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    gloo_rank(work, scenario, rank)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
    return all(os.waitpid(child, 0)[1] == 0 for child in children)


def as_nccl(work):
    for path in sorted((work / "gloo").glob("*/trace_*")):
        dump = pickle.loads(path.read_bytes())
        dump["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
        for entry in dump["entries"]:
            name = entry["profiling_name"].replace("gloo:", "nccl:")
            entry["profiling_name"] = name.replace("barrier", "all_reduce_barrier")
            if entry["retired"]:
                entry["state"] = "completed"
        target = work / "nccl" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(pickle.dumps(dump, int(path.name[-1]) + 3))


if __name__ == "__main__":
    work = pathlib.Path(sys.argv[1])
    judge_all(work, "ours")
    if not run_gloo(work):
        sys.exit("a gloo rank failed")
    as_nccl(work)
    judge_all(work, "nccl")
