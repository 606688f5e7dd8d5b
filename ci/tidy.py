#!/usr/bin/env python3
"""The tree's own rules: who may include whom, what is torch-free, where the environment is read.

usage: tidy.py ROOT. Prints one line per violation; exit 1 when there are any. The include table is
that of the architecture: an arrow that is not listed here is not allowed.
"""
import pathlib
import re
import sys

SRC = {"base", "trace", "comm", "mesh", "model", "data", "optim", "checkpoint", "parallel", "train"}
# module -> modules, or single headers, that its files may include
TABLE = {
    "base": {"base"},
    "trace": {"base", "trace"},
    "comm": {"base", "comm"},
    "mesh": {"base", "comm", "mesh"},
    "model": {"base", "model"},
    "data": {"base", "data"},
    "optim": {"base", "model", "optim"},
    "checkpoint": {"base", "mesh", "checkpoint", "comm/communicator.h"},
    "parallel": {"base", "mesh", "comm", "model", "optim", "parallel"},
    "train": SRC,
    "faults": {"base", "faults", "comm/communicator.h", "comm/forwarding_communicator.h",
               "comm/dump_report.h",
               "trace/event.h",
               "checkpoint", "train/hooks.h", "train/config.h"},
    "invariants": SRC | {"invariants", "faults/script.h"},
    "golden": SRC | {"golden", "invariants/compare.h"},
    "harness": SRC | {"invariants", "faults", "golden", "harness"},
    "ci": SRC,
}
TORCH_FREE = {"base", "trace", "comm", "mesh", "data", "checkpoint", "invariants"}
FOREIGN = re.compile(r"^(ATen|c10|torch|caffe2)/|^mpi(-ext)?\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')
BANNED = re.compile(r"\b(TODO|FIXME|XXX)\b")
MAX_LINE, MAX_FILE = 100, 400


def module_of(path):
    parts = path.parts
    return parts[1] if parts[0] == "src" else parts[0]


def include_problem(path, header):
    module = module_of(path)
    target = header.split("/")[0]
    is_test = path.name.endswith(("_test.cpp", "_testing.h", "conformance.h"))
    if FOREIGN.match(header):
        if module in TORCH_FREE and not path.name.startswith(("mpi_", "nccl_")):
            return f"{module} is torch-free and MPI-free"
        return None
    if target not in TABLE or "/" not in header:
        return None
    if path.name in ("trainer.h", "trainer.cpp") and target == "comm":
        return "the trainer names no collective"
    allowed = TABLE[module]
    if target in allowed or header in allowed or (is_test and module in SRC and target in SRC):
        return None
    return f"{module} may include only {', '.join(sorted(allowed))}"


def touches_environment(path):
    if path.as_posix() == "src/train/program.cpp":
        return True  # sets the switches of LibTorch and MKL for portable numerics
    # Preloaded, with no main of ours: loaded_proof, file_shim, and the settings of interpose.
    named = path.name in ("main.cpp", "loaded_proof.cpp", "file_shim.cpp")
    preloaded = path.as_posix() == "harness/interpose/settings.cpp"
    if path.as_posix() == "src/trace/emit/shardproof_trace.h":
        return True  # goes into programs of others
    return path.parts[0] == "harness" and (named or preloaded or "cli" in path.parts)


def file_problems(path, text):
    lines = text.split("\n")
    if not lines[0].startswith("//"):
        yield 1, "a file starts with a comment that says what it is"
    if path.suffix == ".h" and "#pragma once" not in text:
        yield 1, "a header needs #pragma once"
    if len(lines) > MAX_FILE:
        yield len(lines), f"more than {MAX_FILE} lines: one noun per file"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            yield number, f"{len(line)} columns, more than {MAX_LINE}"
        if BANNED.search(line):
            yield number, "unfinished words do not land"
        if re.search(r"\b(getenv|setenv)\s*\(", line) and not touches_environment(path):
            yield number, "the environment is read by main and harness/cli alone"
        waits = path.name.endswith("_test.cpp") and path.name != "clock_test.cpp"  # sleep under test
        if waits and re.search(r"\b(sleep_for|usleep|nanosleep)\b", line):
            yield number, "a test waits for a condition with a deadline, it does not sleep"
        found = INCLUDE.match(line)
        problem = found and include_problem(path, found.group(1))
        if problem:
            yield number, f'includes "{found.group(1)}": {problem}'


def problems(root):
    root = pathlib.Path(root)
    for top in ("src", "invariants", "faults", "golden", "harness", "ci"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cpp", ".c") and path.is_file():
                relative = path.relative_to(root)
                for number, what in file_problems(relative, path.read_text()):
                    yield f"{relative}:{number}: {what}"


if __name__ == "__main__":
    found = list(problems(sys.argv[1]))
    print("\n".join(found) if found else "tidy: no violation")
    sys.exit(1 if found else 0)
