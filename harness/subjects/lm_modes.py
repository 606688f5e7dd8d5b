"""The ways in which lm.py spreads over ranks. Each small method is one decision of a training program,
so that a mistake (lm_mistakes.py) is one method replaced."""
import contextlib
import math
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel

from lm_model import LAYERS, LENGTH, WIDTH, Model, summed_loss


def all_sum(number):
    total = torch.tensor([number], dtype=torch.float64)
    dist.all_reduce(total)
    return total.item()


class Single:
    data_ranks, model_axis = 1, None

    def __init__(self):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.data_rank = self.rank if self.data_ranks > 1 else 0
        self.restores = {"moments", "schedule", "sampler"}

    def coords(self):
        axes = {"dp": self.data_rank}
        return {**axes, self.model_axis: self.rank} if self.model_axis else axes

    def build(self, seed):
        return Model(seed)

    def wrap(self, model):
        return model

    def rows(self, ids):
        """This data rank's share of a global batch."""
        share = len(ids) // self.data_ranks
        return ids[self.data_rank * share:(self.data_rank + 1) * share]

    def tokens_of_step(self, tokens):
        """What counts in the global batch, of which this rank has `tokens`."""
        return tokens if self.data_ranks == 1 else int(all_sum(tokens))

    def divided(self, loss, parts):
        """A micro-batch's loss as its share of the step."""
        return loss / parts

    def synchronised(self, model, last):
        """Whether the gradients of this micro-batch are reduced with those before it."""
        return contextlib.nullcontext()

    def gradients(self, model, parts, tokens):
        """Forward and backward of all micro-batches. Returns this rank's part of the loss."""
        loss = 0.0
        for number, (inputs, labels) in enumerate(parts):
            with self.synchronised(model, number == len(parts) - 1):
                summed = summed_loss(model(inputs), labels)
                mean = summed * self.data_ranks / (tokens / len(parts))  # over ranks, it is averaged
                self.divided(mean, len(parts)).backward()
            loss += summed.item() / tokens
        self.reduce_tied(model)
        return loss

    def reduce_tied(self, model):
        pass

    def whole_loss(self, loss):
        return loss if self.data_ranks == 1 else all_sum(loss)

    def counts(self, name, parameter):
        """Whether this rank counts its part of a gradient in the norm: each element has one that does."""
        return True

    def sum_of_squares(self, squares):
        return squares

    def norm(self, model):
        squares = 0.0
        for name, parameter in model.named_parameters():
            if self.counts(name, parameter):
                gradient = parameter.grad
                local = gradient.to_local() if isinstance(gradient, DTensor) else gradient
                squares += local.double().square().sum().item()
        return math.sqrt(self.sum_of_squares(squares))

    def saved(self, path):
        """The checkpoint is whole; nothing more is to be done."""


class Ddp(Single):
    broadcasts = True

    def __init__(self):
        self.data_ranks = int(os.environ["WORLD_SIZE"])
        super().__init__()

    def wrap(self, model):
        return DistributedDataParallel(model, init_sync=self.broadcasts)

    def synchronised(self, model, last):
        return contextlib.nullcontext() if last else model.no_sync()


class Fsdp2(Ddp):
    def wrap(self, model):
        mesh = init_device_mesh("cpu", (self.world,))
        for block in model.blocks.values():
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def synchronised(self, model, last):
        model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    def sum_of_squares(self, squares):
        return all_sum(squares)


class Tensor(Single):
    """Attention and feed-forward are cut over ranks, the rest is replicated."""
    model_axis = "tp"

    def wrap(self, model):
        column = {name: ColwiseParallel() for name in ("attention.q", "attention.k", "attention.v",
                                                       "up")}
        row = {name: RowwiseParallel() for name in ("attention.out", "down")}
        for block in model.blocks.values():
            parallelize_module(block, init_device_mesh("cpu", (self.world,)), {**column, **row})
        return model

    def counts(self, name, parameter):
        cut = isinstance(parameter, DTensor) and any(each.is_shard() for each in parameter.placements)
        return cut or self.rank == 0

    def sum_of_squares(self, squares):
        return all_sum(squares)


class Pipeline(Single):
    """Two stages; all forwards, then all backwards. Both have the tied matrix."""
    model_axis = "pp"

    def build(self, seed):
        share = LAYERS // self.world
        return Model(seed, range(self.rank * share, (self.rank + 1) * share))

    def gradients(self, model, parts, tokens):
        outputs, loss = [], 0.0
        for inputs, labels in parts:
            if self.rank > 0:
                inputs = torch.empty(len(labels), LENGTH, WIDTH, dtype=model.embedding.dtype)
                dist.recv(inputs, self.rank - 1)
                inputs.requires_grad_()
            output = model(inputs)
            if self.rank < self.world - 1:
                dist.send(output.detach(), self.rank + 1)
            else:
                output = summed_loss(output, labels) / (tokens / len(parts))
                output = self.divided(output, len(parts))
                loss += output.item()
            outputs.append((inputs, output))
        for inputs, output in outputs:
            gradient = None
            if self.rank < self.world - 1:
                gradient = torch.empty_like(output)
                dist.recv(gradient, self.rank + 1)
            output.backward(gradient)
            if self.rank > 0:
                dist.send(inputs.grad, self.rank - 1)
        self.reduce_tied(model)
        return loss

    def reduce_tied(self, model):
        dist.all_reduce(model.embedding.grad)

    def whole_loss(self, loss):
        return all_sum(loss)

    def counts(self, name, parameter):
        return name != "embedding" or self.rank == 0

    def sum_of_squares(self, squares):
        return all_sum(squares)


MODES = {"single": Single, "ddp": Ddp, "fsdp2": Fsdp2, "tp": Tensor, "pp": Pipeline}
