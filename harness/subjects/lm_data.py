"""The data of lm.py: rows that are functions of their id, and an order that is one of (epoch, step)."""
import torch

from lm_model import IGNORED, LENGTH, VOCABULARY

SIZE, BATCH, SEED = 16, 8, 5  # rows of an epoch and of a step
STEPS = SIZE // BATCH  # of an epoch


def row(identity):
    """LENGTH + 1 tokens that count up by some stride, and how many of their labels count: 4 to 16."""
    stride = 1 + identity % 5
    tokens = (7 * identity + stride * torch.arange(LENGTH + 1)) % VOCABULARY
    return tokens, 4 + (identity * 5) % (LENGTH - 3)


def rows_of_step(step):
    """The ids of a step's global batch: each epoch in an order of its own, without repeats."""
    epoch, place = divmod(step, STEPS)
    order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(SEED + epoch)).tolist()
    return order[place * BATCH:(place + 1) * BATCH]


def batch(ids):
    """Tokens and labels of some rows."""
    tokens = torch.stack([row(each)[0] for each in ids])
    labels = tokens[:, 1:].clone()
    for labels_of_row, identity in zip(labels, ids):
        labels_of_row[row(identity)[1]:] = IGNORED
    return tokens[:, :-1], labels
