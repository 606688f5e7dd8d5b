"""The model of lm.py: a small causal transformer whose embedding is also its output matrix. A pipeline
stage builds some of its layers alone, with the names and the initial values of the whole."""
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 64, 32, 4, 2, 16
IGNORED = -100  # a label that does not count


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        def heads(linear):  # as many as this rank has
            return linear(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(heads(self.q), heads(self.k), heads(self.v),
                                               is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """`layers` are global numbers; the stage of the first has the embedding, that of the last the
    output, so that both have the tied matrix."""

    def __init__(self, seed, layers=range(LAYERS)):
        super().__init__()
        torch.manual_seed(seed)
        blocks = [Block() for _ in range(LAYERS)]  # all draw, so that a layer's values are the same
        embedding, positions = torch.randn(VOCABULARY, WIDTH), torch.randn(LENGTH, WIDTH)
        self.first, self.last = 0 in layers, LAYERS - 1 in layers
        self.blocks = nn.ModuleDict({str(layer): blocks[layer] for layer in layers})
        self.embedding = nn.Parameter(0.1 * embedding)
        if self.first:
            self.positions = nn.Parameter(0.1 * positions)
        if self.last:
            self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        if self.first:
            x = F.embedding(x, self.embedding) + self.positions
        for block in self.blocks.values():
            x = block(x)
        return F.linear(self.norm(x), self.embedding) if self.last else x


def summed_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED,
                           reduction="sum")
