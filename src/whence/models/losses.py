"""Losses, and how a model's outputs tell the outcome of an item.

`item_losses` has the four losses of questions about items. They differ in the wrong items that a
right one is compared with: all items, items that all questions of a batch share, or a single one.

The softmax over all items takes memory that does not grow with their number: the logits of `M` rows
and `I` items are computed in chunks of items. If all items fit into one chunk, its logits are
stored for the gradient. Otherwise they are computed again.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Protocol, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.config import require_choice
from whence.errors import InputError
from whence.models.blocks import HIDDEN
from whence.models.lookup import EmbeddedBatch
from whence.models.tasks import LIKED, NO_NEGATIVES, NO_QUESTION, ONE_UNSEEN, Batch, Negatives

LossName = Literal["softmax", "sampled-softmax", "gbce", "bce"]
OUTPUTS = (1, 2, 3)
"""The numbers of outputs that a model can have: one for a sigmoid, or one per class."""
AT_ONCE, AT_ONCE_ON_GPU = 2**25, 2**29
"""The number of logits in memory at once, on a processor and on a GPU."""


class LossConfig(Protocol):
    """The settings of a loss."""

    @property
    def loss(self) -> LossName:
        """Which one."""

    @property
    def n_negatives(self) -> int:
        """The number of negatives that the questions of a batch share."""

    @property
    def calibration(self) -> float:
        """The parameter t of gBCE."""


def check_loss(config: LossConfig) -> None:
    """Raise `InputError` if there is no such loss."""
    require_choice("loss", config.loss, LossName)
    if config.n_negatives < 1:
        raise InputError(f"n_negatives must be at least 1, not {config.n_negatives}.")
    if not 0 <= config.calibration <= 1:
        raise InputError(f"calibration must be from 0 to 1, not {config.calibration}.")


def negatives_of(config: LossConfig) -> Negatives:
    """Return the negatives that a loss needs."""
    match config.loss:
        case "softmax":
            return NO_NEGATIVES
        case "sampled-softmax":
            return Negatives(shared=config.n_negatives, half_by_count=True)
        case "gbce":
            return Negatives(shared=config.n_negatives)
        case "bce":
            return ONE_UNSEEN
        case _:
            assert_never(config.loss)


def item_losses(
    rows: Tensor, found: EmbeddedBatch, table: Tensor, batch: Batch, config: LossConfig
) -> Tensor:
    """Return `[M]`: the loss of each question from its row `[M, d]`.

    `table` `[1 + I, d]` has the embeddings of all items, `found` those of the batch.
    """
    positive, *negative = found.scores(rows)
    if config.loss == "softmax":
        return log_sum_exp(rows, table) - positive
    if config.loss == "bce":
        return sampled_bce(positive, *negative)
    assert found.shared is not None
    assert batch.shared is not None
    logits = rows @ found.shared.T
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    right = batch.shared == batch.positives[:, None]
    if config.loss == "gbce":
        return gbce(positive, logits, right, len(table) - 1, config.calibration)
    assert batch.shared_log_q is not None
    return sampled_softmax(positive, logits, right, batch.shared_log_q)


def sampled_bce(positive: Tensor, negative: Tensor) -> Tensor:
    """Return −log σ(h·e⁺) − log(1 − σ(h·e⁻)) from both scores."""
    return F.softplus(-positive) + F.softplus(negative)


def sampled_softmax(positive: Tensor, logits: Tensor, right: Tensor, log_q: Tensor) -> Tensor:
    """Return `[M]`: −log softmax of the positives, with an estimate of the sum over all items.

    The estimate is exp(s⁺) + Σ_k exp(s_k) / (K q_k) over the negatives that are not the positive.
    Its expectation is the sum over all items. The logits s_k are `[M, K]`, and `right` says which
    of them are the positive.
    """
    corrected = logits - (log_q + math.log(logits.shape[1]))
    others = corrected.masked_fill(right, HIDDEN).logsumexp(dim=1)
    return F.softplus(others - positive)


def gbce(
    positive: Tensor, logits: Tensor, right: Tensor, item_count: int, calibration: float
) -> Tensor:
    """Return `[M]`: −β log σ(s⁺) − Σ_k log(1 − σ(s_k)) (Petrov & Macdonald 2023).

    β = α (t (1 − 1/α) + 1/α) with the sampling rate α = K / (I − 1) and the calibration t. It
    makes up for wrong items that are not drawn, in part if t < 1.
    """
    alpha = logits.shape[1] / (item_count - 1)
    beta = 1 - calibration * (1 - alpha)
    return beta * F.softplus(-positive) + F.softplus(logits).masked_fill(right, 0).sum(dim=1)


def mean_where(counted: Tensor, losses: Tensor) -> Tensor:
    """Return the mean of the losses that count; the others are padding."""
    return (losses * counted).sum() / counted.sum()


def liked_logit(outputs: Tensor) -> Tensor:
    """Return `[…]`: the logit of the probability of liked, from outputs `[…, C]`."""
    liked, *others = outputs.unbind(dim=-1)
    if not others:
        return liked
    return liked - torch.stack(others, dim=-1).logsumexp(dim=-1)


def class_logits(outputs: Tensor) -> Tensor:
    """Return `[…, C]`. A single output becomes two classes: liked, and no interaction."""
    return F.pad(outputs, (0, 1)) if outputs.shape[-1] == 1 else outputs


def outcome_loss(outputs: Tensor, outcomes: Tensor, balanced: bool) -> Tensor:
    """Return the mean loss of outputs `[…, C]` over all questions `[…]`.

    One output has the log loss, two have the cross-entropy, and three the mean log loss of each
    class's probability, as in Jain (2019). `balanced` weighs a class by its rarity in the batch:
    w_c = N / (C N_c).
    """
    asked = outcomes != NO_QUESTION
    if outputs.shape[-1] == 1:
        liked = (outcomes == LIKED).to(outputs.dtype)
        losses = F.binary_cross_entropy_with_logits(outputs[..., 0], liked, reduction="none")
    else:
        losses = _class_losses(outputs, outcomes.clamp(min=0))
    if balanced:
        losses = losses * _rarity(outcomes, asked.sum().to(losses), max(2, outputs.shape[-1]))
    return mean_where(asked, losses)


def _class_losses(outputs: Tensor, outcomes: Tensor) -> Tensor:
    log_p = outputs.log_softmax(dim=-1)
    cost = F.nll_loss(log_p.flatten(0, -2), outcomes.flatten(), reduction="none")
    cost = cost.view(outcomes.shape)
    if outputs.shape[-1] == 2:
        return cost
    # log(1 − p_c) = log Σ_{k≠c} p_k stays finite when p_c is rounded to 1.
    apart = torch.eye(outputs.shape[-1], dtype=torch.bool, device=outputs.device)
    others = log_p[..., None, :].masked_fill(apart, -torch.inf).logsumexp(dim=-1)
    of_others = others.sum(dim=-1) - others.gather(-1, outcomes[..., None])[..., 0]
    return (cost - of_others) / outputs.shape[-1]


def _rarity(outcomes: Tensor, count: Tensor, classes: int) -> Tensor:
    """Return w_c for the class of each of `N` questions."""
    member = outcomes[..., None] == torch.arange(classes, device=outcomes.device)
    counts = member.flatten(0, -2).sum(dim=0).clamp(min=1)
    weight = count / (classes * counts)
    return (member * weight).sum(dim=-1)


def log_sum_exp(rows: Tensor, table: Tensor, at_once: int | None = None) -> Tensor:
    """Return `[M]`: log Σ_i exp(h · e_i) of rows `h` `[M, d]` over the items of `[1 + I, d]`.

    Row 0 of the table pads: it is no item and gets no gradient. Less `h · e_i`, the result is
    −log softmax.
    """
    device = rows.device.type
    if torch.is_autocast_enabled(device):
        half = torch.get_autocast_dtype(device)
        rows, table = rows.to(half), table.to(half)
    if at_once is None:
        at_once = AT_ONCE_ON_GPU if rows.is_cuda else AT_ONCE
    return _apply(rows[None], table[None], at_once)[0].squeeze(0)


def _apply(rows: Tensor, tables: Tensor, at_once: int) -> tuple[Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor] = _LogSumExp.apply(  # type: ignore[no-untyped-call]
        rows, tables, at_once
    )
    return found


class _LogSumExp(torch.autograd.Function):
    """Rows `[S, M, d]` and tables `[S, 1 + I, d]`; `vmap` adds more of them, without a loop."""

    @staticmethod
    def forward(rows: Tensor, tables: Tensor, at_once: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return `[S, M]`, the largest logits `[S, M, 1]`, and exp(logit − largest) if stored."""
        wide = torch.promote_types(rows.dtype, torch.float32)
        peaks = rows.new_full((*rows.shape[:2], 1), -torch.inf, dtype=wide)
        total = torch.zeros_like(peaks)
        kept = rows.new_empty(0)
        chunks = _chunks(rows, tables, at_once)
        room = _room(rows, chunks)
        for items in chunks:
            logits = _logits(rows, tables, items, room)
            higher = torch.maximum(peaks, logits.amax(dim=-1, keepdim=True))
            exps = _exps(logits, higher)
            total = total * (peaks - higher).exp() + exps.sum(dim=-1, keepdim=True)
            peaks = higher
            if len(chunks) == 1:
                kept = exps.to(rows.dtype)
        return (peaks + total.log()).squeeze(-1), peaks, kept

    @staticmethod
    def setup_context(
        ctx: Any,  # noqa: ANN401
        inputs: tuple[Tensor, Tensor, int],
        output: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Keep what the other values can be computed from."""
        rows, tables, ctx.at_once = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # which would be zeros in the shape of what is stored
        ctx.save_for_backward(rows, tables, *output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        """Return Σ_i p_i e_i for a row and Σ p_i h for an item, with the softmax p."""
        rows, tables, sums, peaks, kept = ctx.saved_tensors
        # exp(logit − largest) differs from p by a factor per row, and so does the gradient.
        factor = gradient[..., None] * (peaks - sums[..., None]).exp()
        weighted = (rows * factor).to(rows.dtype)
        of_rows = torch.zeros_like(rows, dtype=factor.dtype)
        of_tables = torch.empty_like(tables)
        of_tables[:, 0] = 0
        chunks = _chunks(rows, tables, ctx.at_once)
        room = kept if kept.numel() else _room(rows, chunks)
        for items in chunks:
            exps = kept
            if not kept.numel():
                exps = _exps(_logits(rows, tables, items, room), peaks).to(rows.dtype)
            of_rows += torch.bmm(exps, tables[:, items])
            torch.bmm(exps.transpose(1, 2), weighted, out=of_tables[:, items])
        return (of_rows * factor).to(rows.dtype), of_tables, None

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int, int, None],
        rows: Tensor,
        tables: Tensor,
        at_once: int,
    ) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int | None]]:
        """Take `[S, 1, M, d]` and `[S, 1, 1 + I, d]`."""
        rows, tables = rows.movedim(in_dims[0], 0), tables.movedim(in_dims[1], 0)
        sums, peaks, kept = _apply(rows.squeeze(1), tables.squeeze(1), at_once)
        return (sums.unsqueeze(1), peaks.unsqueeze(1), kept), (0, 0, None)


def _chunks(rows: Tensor, tables: Tensor, at_once: int) -> list[slice]:
    """Return slices of the items with at most `at_once` logits each."""
    size = max(1, at_once // (rows.shape[0] * rows.shape[1]))
    end = tables.shape[1]
    return [slice(start, min(start + size, end)) for start in range(1, end, size)]


def _room(rows: Tensor, chunks: list[slice]) -> Tensor:
    """Return room for the logits of any chunk; new memory for each would leave gaps unused."""
    return rows.new_empty(rows.shape[0] * rows.shape[1] * (chunks[0].stop - chunks[0].start))


def _logits(rows: Tensor, tables: Tensor, items: slice, room: Tensor) -> Tensor:
    """Return the logits of some items, in the first part of the room."""
    shape = (*rows.shape[:2], items.stop - items.start)
    out = room[: math.prod(shape)].view(shape)
    return torch.bmm(rows, tables[:, items].transpose(1, 2), out=out)


def _exps(logits: Tensor, peaks: Tensor) -> Tensor:
    """Return exp(logit − largest), in place if the logits have enough digits."""
    return logits.to(peaks.dtype).sub_(peaks).exp_()
