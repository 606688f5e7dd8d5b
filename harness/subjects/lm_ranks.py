"""Starts the ranks of lm.py by fork, so that PyTorch is imported once: ends them all when one fails,
as torchrun does, and dies with none left."""
import ctypes
import os
import shutil
import signal
import sys
import tempfile

import torch._dynamo  # the first optimizer imports it: here once for all ranks

PR_SET_PDEATHSIG = 1


def become_rank(rank, world, parent, store):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that
        os._exit(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LM_STORE=store)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def wait_for(ranks):
    """The exit code of the job: that of the first rank that failed, else 0."""
    code = 0
    while ranks:
        pid, status = os.wait()
        rank = ranks.pop(pid, None)
        if rank is None or code or status == 0:
            continue
        code = abs(os.waitstatus_to_exitcode(status))
        print(f"rank {rank} ended with status {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
        for other in ranks:
            os.kill(other, signal.SIGKILL)
    return code


def start_ranks(world):
    """Returns in each rank; the caller's process waits for them and exits."""
    folder = tempfile.mkdtemp(prefix="lm-")
    parent, ranks = os.getpid(), {}
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            become_rank(rank, world, parent, folder + "/store")
            return
        ranks[pid] = rank
    code = wait_for(ranks)
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)
