#!/usr/bin/env python3
"""The safetensors package for Python as a peer: reads our files and writes one for us to read.

usage: peer.py check | read FILE | write FILE
check exits 77 when safetensors or numpy is absent. read prints JSON. python.safetensors in this
folder was made by `write`.
"""
import hashlib
import json
import sys

try:
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import save_file
except ImportError as missing:
    print(missing)
    sys.exit(77)


def read(path):
    with safe_open(path, framework="numpy") as file:
        tensors = {}
        for key in file.keys():
            tensor = file.get_tensor(key)
            tensors[key] = {"dtype": str(tensor.dtype), "shape": list(tensor.shape),
                            "sha256": hashlib.sha256(tensor.tobytes()).hexdigest()}
        return {"metadata": file.metadata(), "tensors": tensors}


def write(path):
    tensors = {
        "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3) * 0.5,
        "b.ids": np.array([-1, 0, 1 << 40], dtype=np.int64),
        "c.bytes": np.arange(5, dtype=np.uint8),
        "d.scale": np.array(1.5, dtype=np.float16),
        "e.empty": np.zeros((2, 0), dtype=np.float64),
        "f.double": np.array([0.1], dtype=np.float64),
        "g.int": np.array([[7]], dtype=np.int32),
    }
    save_file(tensors, path, metadata={"origin": "python", "note": "\u00e4"})


if sys.argv[1] == "read":
    print(json.dumps(read(sys.argv[2])))
elif sys.argv[1] == "write":
    write(sys.argv[2])
