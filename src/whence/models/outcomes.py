"""What comes of an item, as a model's outputs say it: one, for a sigmoid, or one a class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.models.losses import mean_where
from whence.models.tasks import LIKED, NO_QUESTION

OUTPUTS = (1, 2, 3)


def liked_logit(outputs: Tensor) -> Tensor:
    """`[…]`: the logit of the probability that it is liked, from outputs `[…, C]`."""
    liked, *others = outputs.unbind(dim=-1)
    if not others:
        return liked
    return liked - torch.stack(others, dim=-1).logsumexp(dim=-1)


def class_logits(outputs: Tensor) -> Tensor:
    """`[…, C]`, where one output stands for two classes: liked, and nothing."""
    return F.pad(outputs, (0, 1)) if outputs.shape[-1] == 1 else outputs


def outcome_loss(outputs: Tensor, outcomes: Tensor, balanced: bool) -> Tensor:
    """The mean over all questions `[…]` of what their outputs `[…, C]` cost.

    One output has the log loss, two the cross-entropy, and three, as Jain (2019) trained them, the
    mean log loss of each class's probability. `balanced` weighs a class by how rare it is in the
    batch: w_c = N / (C N_c).
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
    # log(1 − p_c) = log Σ_{k≠c} p_k, which a rounded p_c = 1 does not make infinite.
    apart = torch.eye(outputs.shape[-1], dtype=torch.bool, device=outputs.device)
    others = log_p[..., None, :].masked_fill(apart, -torch.inf).logsumexp(dim=-1)
    of_others = others.sum(dim=-1) - others.gather(-1, outcomes[..., None])[..., 0]
    return (cost - of_others) / outputs.shape[-1]


def _rarity(outcomes: Tensor, count: Tensor, classes: int) -> Tensor:
    """w_c of each of `N` questions' class; of a class that is not there, none comes."""
    member = outcomes[..., None] == torch.arange(classes, device=outcomes.device)
    counts = member.flatten(0, -2).sum(dim=0).clamp(min=1)
    weight = count / (classes * counts)
    return (member * weight).sum(dim=-1)
