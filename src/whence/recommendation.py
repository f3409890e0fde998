"""What a run can do: recommend, explain, compare, give a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from whence.arrays import Floats
from whence.contract import DROPPED, PAD, HasPartNames, HasUserVectors
from whence.data.histories import Cases
from whence.data.sources import Source
from whence.devices import device_of
from whence.errors import InputError
from whence.explainers import EXPLAINERS, Explainer, able, compare_batch
from whence.explainers.explain import named_explainer
from whence.explanation import Explanation, Labels
from whence.models import Recommender
from whence.models.base import require_history
from whence.models.dropping import unless_own
from whence.picks import NEW_HISTORY, Pick, Recommendations
from whence.ranking import top_unseen
from whence.reasons.judgement import SURE
from whence.reasons.of_run import Options, find_reasons
from whence.reasons.reason import Reason
from whence.reasons.similar_users import find_similar_users
from whence.reasons.without_history import reasons_without_history
from whence.run import Run

History = Sequence[str | int]
DEFAULT_METHOD: Final = "shapley"


@dataclass(frozen=True, eq=False)
class Subject:
    """The user to recommend to: a name and all their items, oldest first."""

    name: str
    items: npt.NDArray[np.int32]
    user: int = PAD
    """The user's row in the data; `PAD` for a history given by hand."""
    ratings: Floats | None = None
    """The rating of each event, if the data have them."""

    def as_case(self) -> Cases:
        """Return the history as a case without a target."""
        size = np.array([len(self.items)])
        zero = np.array([0])
        return Cases(self.items, np.array([self.user]), starts=zero, ends=size, targets=zero)


def recommend(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    k: int = 10,
    model_seed: int | None = None,
    sure: float = SURE,
    low_rating: float | None = None,
    data: Source | None = None,
) -> Recommendations:
    """Return the top `k` items for a user of the data, or for a new history of ids or titles.

    All models of the run recommend together, unless `model_seed` chooses one. A reason is said if
    its probability of being right is at least `sure`. Items rated `low_rating` or lower are never
    named; by default two of five. `data` are newer events of the same items (`Run.with_data`); by
    default those of the training.
    """
    options = Options(sure, low_rating, k=k)
    run = serving(run, data)
    subject = find_subject(run, user, history)
    model = run.chosen(model_seed)
    (items,), (scores,) = top_unseen(model, subject.as_case(), model.config.max_len, k)
    unseen = np.isfinite(scores)
    items, scores = items[unseen], scores[unseen]
    reasons = _reasons(run, subject, items, model_seed, options) if len(items) else []
    columns = (run.catalog.raw_ids(items), run.catalog.labels(items), scores, reasons)
    picks = tuple(
        Pick(rank, raw, title, float(score), reason)
        for rank, (raw, title, score, reason) in enumerate(zip(*columns, strict=True), start=1)
    )
    shown = subject.items[-model.config.max_len :]
    return Recommendations(
        name=subject.name,
        history=tuple(run.catalog.labels(shown)),
        history_ids=tuple(run.catalog.raw_ids(shown)),
        picks=picks,
        verb=run.verb,
    )


def explain(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int | None = None,
    method: str | Explainer = DEFAULT_METHOD,
    model_seed: int | None = None,
    seed: int = 0,
    memory: int | None = None,
    removal: str | None = None,
    data: Source | None = None,
) -> Explanation:
    """Return how much each part of the history counts for an item, by default the best one.

    `method` is a name, such as "rollout" or "shapley:coalitions=4096", or an explainer. The other
    arguments are those of `compare`.
    """
    answers = compare(
        run,
        user=user,
        history=history,
        item=item,
        methods=[method],
        model_seed=model_seed,
        seed=seed,
        memory=memory,
        removal=removal,
        data=data,
    )
    (answer,) = answers.values()
    return answer


def compare(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int | None = None,
    methods: Sequence[str | Explainer] | None = None,
    model_seed: int | None = None,
    seed: int = 0,
    memory: int | None = None,
    removal: str | None = None,
    data: Source | None = None,
) -> dict[str, Explanation]:
    """Return explanations of the same item by several methods, by default all the model supports.

    `model_seed` chooses one of the run's trained models. By default they are explained as one, but
    for attention, which belongs to one model: methods that need it explain that of the first seed.
    `seed` is the randomness of explainers that sample. `memory` limits, roughly, the bytes that
    altered histories take at a time. `removal` is how methods remove items: by default as the model
    does, or "dropped", as if they had never been in the history. `data` are newer events of the
    same items; by default those of the training.
    """
    run = serving(run, data)
    subject = find_subject(run, user, history)
    model = run.chosen(model_seed)
    removal = unless_own(model, removal)
    methods = able(run.first, EXPLAINERS) if methods is None else methods
    target = _target(run, model, subject, item)
    batch = model.read(subject.as_case(), model.config.max_len)
    labels = _labels(run, model, batch, target)
    found: dict[str, Explanation] = {}
    for of_seed, explainers in _by_model(run, methods, model_seed).items():
        asked = run.chosen(of_seed)
        own = asked.read(subject.as_case(), asked.config.max_len).to(device_of(asked))
        targets = torch.tensor([target], device=own.device)
        said = compare_batch(asked, own, targets, explainers, seed, memory=memory, removal=removal)
        for name, one in said.items():
            placed = one.in_slots(batch.shape[1])
            found[name] = replace(placed, labels=labels, model_seed=of_seed)
    return {name: found[name] for name in (named_explainer(one)[0] for one in methods)}


def _by_model(
    run: Run, methods: Sequence[str | Explainer], model_seed: int | None
) -> dict[int | None, list[str | Explainer]]:
    """Return the methods by the seed of the model that they explain; `None` for the whole."""
    found: dict[int | None, list[str | Explainer]] = {}
    for method in methods:
        needs = named_explainer(method)[1].needs
        own = run.seed_offering(needs) if model_seed is None else model_seed
        found.setdefault(own, []).append(method)
    return found


def reason(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int | None = None,
    model_seed: int | None = None,
    removal: str = DROPPED,
    sure: float = SURE,
    low_rating: float | None = None,
    k: int = 10,
    data: Source | None = None,
) -> Reason:
    """Return the checked reason for an item, by default the best one, in words.

    `removal` is how the checks remove an item; by default it is left out of the history. The
    smallest set without which the item leaves the best `k` is searched, too. `sure` and
    `low_rating` are those of `recommend`.
    """
    options = Options(sure, low_rating, removal, k)
    run = serving(run, data)
    subject = find_subject(run, user, history)
    model = run.chosen(model_seed)
    if removal != DROPPED:
        require_history(model, f"a reason by '{removal}'")
    target = _target(run, model, subject, item)
    (found,) = _reasons(run, subject, np.array([target]), model_seed, options, search=True)
    return found


def serving(run: Run, data: Source | None) -> Run:
    """Return the run with the histories to serve."""
    if not isinstance(run, Run):
        raise InputError(f"This needs a run, not {run!r}. Open its folder with open_run(folder).")
    return run if data is None else run.with_data(data)


def find_subject(run: Run, user: object, history: History | None) -> Subject:
    """Return a user of the data, or the one whose history is given."""
    if (user is None) == (history is None):
        raise InputError(
            "Name either a user of the data (--user, in Python user=) or a history of ids or "
            "titles (--history, in Python history=), not both."
        )
    if history is None:
        data = run.interactions
        number = data.find_user(user)
        items = data.history(number)
        if not len(items) and run.first.reads_history:
            raise InputError(f"User {user} has no event with an item that this run knows.")
        events = slice(data.offsets[number], data.offsets[number + 1])
        ratings = None if data.ratings is None else data.ratings[events].astype(np.float64)
        return Subject(f"user {user}", items, number, ratings)
    if isinstance(history, str):
        raise InputError("A history is a list of ids or titles, even if it holds only one.")
    if not len(history):
        raise InputError("The history is empty; give at least one id or title.")
    found = [run.catalog.find(str(entry)) for entry in history]
    return Subject(NEW_HISTORY, np.array(found, dtype=np.int32))


def _target(run: Run, model: Recommender, subject: Subject, item: str | int | None) -> int:
    """Return the requested item, or the best one."""
    if item is not None:
        return run.catalog.find(str(item))
    ((best,),), ((score,),) = top_unseen(model, subject.as_case(), model.config.max_len, 1)
    if not np.isfinite(score):
        raise InputError(
            f"{subject.name} has seen every item. Name the item to explain (--item, item=)."
        )
    return int(best)


def _reasons(
    run: Run,
    subject: Subject,
    targets: npt.NDArray[np.int64],
    model_seed: int | None,
    options: Options,
    search: bool = False,
) -> list[Reason]:
    model = run.chosen(model_seed)
    if model.reads_history:
        return find_reasons(
            run,
            subject.items,
            targets,
            model_seed=model_seed,
            ratings=subject.ratings,
            options=options,
            search=search,
        )
    max_len = model.config.max_len
    device = device_of(model)
    batch = model.read(subject.as_case(), max_len).to(device)
    # Experts belong to the model of a seed. The first one speaks; the others agree or not.
    experts = [*([model] if model is not run.whole else []), *run.models.values()]
    reasons = reasons_without_history(
        model,
        batch,
        subject.items,
        torch.from_numpy(targets).to(device),
        run.verb,
        [*dict.fromkeys(experts)],
    )
    data = run.interactions
    if not isinstance(model, HasUserVectors) or data.user_count < 2:
        return reasons
    similar = find_similar_users(model.user_vectors(), data, subject.user, targets)
    return [replace(one, similar_users=who) for one, who in zip(reasons, similar, strict=True)]


def _labels(run: Run, model: Recommender, batch: torch.Tensor, target: int) -> Labels:
    """Return the names of the parts and the target, and raw ids if the parts are items."""
    titles, raw = tuple(run.catalog.labels([target])), tuple(run.catalog.raw_ids([target]))
    if isinstance(model, HasPartNames):
        names = model.part_names(batch)
        return Labels(tuple(map(tuple, names)), titles, None, raw)
    require_history(model, "an explanation")
    slots = batch[0].numpy()
    items = slots[slots != PAD]
    return Labels(
        (_by_slot(slots, run.catalog.labels(items), ""),),
        titles,
        (_by_slot(slots, run.catalog.raw_ids(items), None),),
        raw,
    )


def _by_slot(slots: npt.NDArray[np.int64], values: list[Any], empty: object) -> tuple[Any, ...]:
    """Return the values in the places of the filled slots."""
    filled = iter(values)
    return tuple(next(filled) if item != PAD else empty for item in slots)
