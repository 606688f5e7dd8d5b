"""Planted mistakes of lm.py: each replaces one decision of the right program (lm_modes.py)."""
import pathlib

import torch.distributed as dist


def rank_local_token_count(mode):
    mode.tokens_of_step = lambda tokens: tokens * mode.data_ranks


def lost_1k(mode):
    mode.divided = lambda loss, parts: loss


def no_sync(mode):
    mode.synchronised = lambda model, last: model.no_sync()


def duplicated_sample(mode):
    right = mode.rows

    def rows(ids):
        mine = right(ids)
        return mine if mode.data_rank == 0 else [ids[0]] + mine[1:]
    mode.rows = rows


def same_order_on_all_ranks(mode):
    mode.rows = lambda ids: ids[:len(ids) // mode.data_ranks]


def moments_not_restored(mode):
    mode.restores = mode.restores - {"moments"}


def schedule_not_restored(mode):
    mode.restores = mode.restores - {"schedule"}


def sampler_reset_on_resume(mode):
    mode.restores = mode.restores - {"sampler"}


def clip_by_local_norm(mode):
    mode.sum_of_squares = lambda squares: squares


def skipped_broadcast(mode):
    mode.broadcasts = False


def wrong_tied_gradient(mode):
    """Averaged over its two copies, as what is replicated for data is."""
    def reduce_tied(model):
        dist.all_reduce(model.embedding.grad)
        model.embedding.grad /= mode.world
    mode.reduce_tied = reduce_tied


def dropped_last_shard(mode):
    def saved(path):
        if mode.rank == mode.world - 1:
            sorted(pathlib.Path(path).glob(f"__{mode.rank}_*.distcp"))[-1].unlink()
    mode.saved = saved


MISTAKES = {each.__name__: each for each in (
    rank_local_token_count, lost_1k, no_sync, duplicated_sample, same_order_on_all_ranks,
    moments_not_restored, schedule_not_restored, sampler_reset_on_resume, clip_by_local_norm,
    skipped_broadcast, wrong_tied_gradient, dropped_last_shard)}
