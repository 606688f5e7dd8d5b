#!/usr/bin/env python3
"""Writes golden/expected/first_step_*.csv: the loss and gradients of one step, by PyTorch autograd
in float64, from the weights and batches that Shardproof itself draws.

usage: make_golden.py [FOLDER]      needs torch and numpy; run by hand, never by a build or a test

Nothing here comes from Shardproof's C++: the random numbers (Philox 4x32-10, Box-Muller), dropout
masks, the model and its loss are written again in Python, so the golden test compares two
independent programs.
Rows are kind,name,index,value: kind is loss, count, weight, mask, gradient or norm. Weights are
float32 values in full; masks and gradients are every n-th element (1: kept; n is `every` of the
case), norms those of all elements. A mask's index is that of the step: (row, position, dim).
"""
import csv
import math
import pathlib
import sys

import torch
import torch.nn.functional as F

MASK = 0xFFFFFFFF
INITIAL_WEIGHT, DROPOUT, TEST = 1, 2, 6  # purposes of random numbers

DEFAULT = dict(layers=2, width=32, heads=4, vocabulary=64, sequence=16, micro_batches=2, rows=2,
               packed=False, smoothing=0.0, tied=False, dropout=0.0, every=23)
CASES = {
    "tiny": dict(seed=1, micro_batches=4, rows=4),
    "odd": dict(seed=2, layers=3, width=36, heads=6, vocabulary=61, sequence=12, micro_batches=1,
                rows=3),
    "packed": dict(seed=3, packed=True),
    "smoothed": dict(seed=4, vocabulary=61, smoothing=0.1, every=97),
    "tied": dict(seed=5, vocabulary=61, tied=True, every=97),
    "dropout": dict(seed=6, dropout=0.25, every=97),
    "everything": dict(seed=7, vocabulary=61, packed=True, smoothing=0.1, tied=True, dropout=0.1,
                       every=97),
}


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def stream_id(text):
    h = 2166136261
    for byte in text.encode():
        h = ((h ^ byte) * 16777619) & MASK
    return h


class Random:
    def __init__(self, seed, purpose, stream=0, step=0):
        self.key = (seed & MASK, seed >> 32)
        self.purpose, self.stream, self.step = purpose, stream, step

    def block(self, index):
        high = (index >> 32) | self.purpose << 24
        return philox((index & MASK, high, self.stream, self.step), self.key)

    def normal(self, index):
        w = self.block(index // 2)
        radius = math.sqrt(-2 * math.log(((((w[1] << 32) | w[0]) >> 11) + 1) * 2.0**-53))
        angle = 2 * math.pi * ((((w[3] << 32) | w[2]) >> 11) * 2.0**-53)
        value = radius * (math.cos(angle) if index % 2 == 0 else math.sin(angle))
        return torch.tensor(value, dtype=torch.float32).item()

    def uniform(self, index):
        return self.block(index // 4)[index % 4] * 2.0**-32

    def below(self, bound, index):
        w = self.block(index // 2)
        at = index % 2 * 2
        return (((w[at + 1] << 32) | w[at]) * bound) >> 64


def parameter_shapes(c):
    d, t, v = c["width"], c["sequence"], c["vocabulary"]
    shapes = {"embed.weight": (v, d), "pos.weight": (t, d), "ln_f.weight": (d,), "ln_f.bias": (d,)}
    if not c["tied"]:
        shapes["head.weight"] = (v, d)
    for i in range(c["layers"]):
        b = f"blocks.{i}."
        for norm in ("ln1", "ln2"):
            shapes[b + norm + ".weight"] = shapes[b + norm + ".bias"] = (d,)
        for use in ("q", "k", "v", "proj"):
            shapes[b + f"attn.{use}.weight"], shapes[b + f"attn.{use}.bias"] = (d, d), (d,)
        shapes[b + "mlp.up.weight"], shapes[b + "mlp.up.bias"] = (4 * d, d), (4 * d,)
        shapes[b + "mlp.down.weight"], shapes[b + "mlp.down.bias"] = (d, 4 * d), (d,)
    return shapes


def initial(c, name, shape):
    if "ln" in name and name.endswith(".weight"):
        return torch.ones(shape, dtype=torch.float32)
    scale = 0.02
    if name.endswith((".proj.weight", ".down.weight")):
        scale = 0.02 / math.sqrt(2.0 * c["layers"])
    random = Random(c["seed"], INITIAL_WEIGHT, stream_id(name))
    values = [scale * random.normal(i) for i in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).to(torch.float32).reshape(shape)


def batch(c, index):
    random = Random(c["seed"], TEST, 0, index)
    rows, length = c["rows"], c["sequence"]
    tokens, targets = [], []
    for at in range(rows * length):
        ignored = random.below(8, 3 * at + 2) == 0
        tokens.append(random.below(c["vocabulary"], 3 * at))
        targets.append(-1 if ignored else random.below(c["vocabulary"], 3 * at + 1))
    documents = [t // 5 if c["packed"] else 0 for t in range(length)]
    positions = [t % 5 if c["packed"] else t for t in range(length)]
    return (torch.tensor(tokens).reshape(rows, length), torch.tensor(targets).reshape(rows, length),
            torch.tensor(documents), torch.tensor(positions))


def dropout_sites(c):
    blocks = range(c["layers"])
    return ["embed.dropout"] + [f"blocks.{i}.{b}.dropout" for i in blocks for b in ("attn", "mlp")]


def masks(c, index):
    """Of one micro-batch, by site: 1 where an element is kept."""
    size = c["rows"] * c["sequence"] * c["width"]
    kept = {}
    for site in dropout_sites(c) if c["dropout"] > 0 else []:
        random = Random(c["seed"], DROPOUT, stream_id(site))
        values = [float(random.uniform(index * size + i) >= c["dropout"]) for i in range(size)]
        kept[site] = torch.tensor(values, dtype=torch.float64).reshape(
            c["rows"], c["sequence"], c["width"])
    return kept


def loss_sum(c, p, tokens, targets, documents, positions, kept):
    rows, length = tokens.shape
    d, heads = c["width"], c["heads"]
    visible = torch.ones(length, length).tril().bool() & (documents[:, None] == documents[None, :])

    def dropped(t, site):
        return t * kept[site] / (1 - c["dropout"]) if kept else t

    x = dropped(p["embed.weight"][tokens] + p["pos.weight"][positions], "embed.dropout")
    for i in range(c["layers"]):
        b = f"blocks.{i}."

        def linear(t, name):
            return F.linear(t, p[b + name + ".weight"], p[b + name + ".bias"])

        def norm(t, name):
            return F.layer_norm(t, (d,), p[b + name + ".weight"], p[b + name + ".bias"], 1e-5)

        h = norm(x, "ln1")
        q, k, v = (linear(h, f"attn.{n}").view(rows, length, heads, d // heads).transpose(1, 2)
                   for n in "qkv")
        scores = (q @ k.transpose(-1, -2) / math.sqrt(d // heads)).masked_fill(~visible, -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, d)
        x = x + dropped(linear(mixed, "attn.proj"), b + "attn.dropout")
        x = x + dropped(linear(F.gelu(linear(norm(x, "ln2"), "mlp.up")), "mlp.down"),
                        b + "mlp.dropout")
    x = F.layer_norm(x, (d,), p["ln_f.weight"], p["ln_f.bias"], 1e-5)
    logits = F.linear(x, p["embed.weight" if c["tied"] else "head.weight"])
    return F.cross_entropy(logits.reshape(-1, c["vocabulary"]), targets.reshape(-1),
                           ignore_index=-1, reduction="sum", label_smoothing=c["smoothing"])


def write(folder, case, c):
    weights = {n: initial(c, n, s) for n, s in parameter_shapes(c).items()}
    p = {n: w.to(torch.float64).requires_grad_() for n, w in weights.items()}
    batches = [batch(c, m) + (masks(c, m),) for m in range(c["micro_batches"])]
    count = sum(int((b[1] >= 0).sum()) for b in batches)
    loss = sum(loss_sum(c, p, *b) for b in batches) / count
    loss.backward()
    path = folder / f"first_step_{case}.csv"
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["kind", "name", "index", "value"])
        out.writerow(["loss", "mean", 0, repr(loss.item())])
        out.writerow(["count", "tokens", 0, count])
        for site in batches[0][-1]:
            kept = torch.cat([b[-1][site].flatten() for b in batches])
            for i in range(0, kept.numel(), c["every"]):
                out.writerow(["mask", site, i, int(kept[i].item())])
        for name in sorted(p):
            weight, gradient = weights[name].flatten(), p[name].grad.flatten()
            for i in range(0, weight.numel(), max(1, weight.numel() // 4)):
                out.writerow(["weight", name, i, repr(weight[i].item())])
            out.writerow(["norm", name, 0, repr(gradient.norm().item())])
            for i in range(0, gradient.numel(), c["every"]):
                out.writerow(["gradient", name, i, repr(gradient[i].item())])
    print(f"{path}: loss {loss.item()!r}, {count} tokens")


if __name__ == "__main__":
    torch.set_num_threads(1)
    default = pathlib.Path(__file__).parent / "expected"
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for case, config in CASES.items():
        write(target, case, DEFAULT | config)
