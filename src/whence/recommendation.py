"""The verbs over a run: recommend, explain, compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import torch

from whence.contract import PAD, offers, require_history
from whence.data.histories import Cases
from whence.errors import InputError
from whence.explainers import READY, able, compare_batch
from whence.explanation import Explanation, Labels
from whence.files import new_file
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.progress import progress_bar
from whence.ranking import best_unmet, device_of
from whence.reasons.checked import Reason, find_reasons, without_items
from whence.reasons.nearby import find_nearby
from whence.run import Run

History = Sequence[str | int]


@dataclass(frozen=True, eq=False)
class Subject:
    """Whom to recommend to: a name and all their items, oldest first."""

    name: str
    items: npt.NDArray[np.int32]
    user: int = PAD
    """Their number in the data, where they are in them."""

    def as_case(self) -> Cases:
        """The history as a case without a target."""
        size = np.array([len(self.items)])
        zero = np.array([0])
        return Cases(self.items, np.array([self.user]), starts=zero, ends=size, targets=zero)


@dataclass(frozen=True)
class Pick:
    """One recommended item."""

    rank: int
    item: Any
    """The raw id."""
    title: str
    score: float
    reason: Reason


@dataclass(frozen=True)
class Recommendations:
    """The best items the user has not met, each with its reason."""

    name: str
    history: tuple[str, ...]
    """Titles, oldest first, as far back as the model reads."""
    history_ids: tuple[Any, ...]
    """The raw ids of the same."""
    picks: tuple[Pick, ...]
    """Fewer than asked for, or none, where the user has met nearly everything."""

    def as_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {
            "for": self.name,
            "history": [
                {"item": raw, "title": title}
                for raw, title in zip(self.history_ids, self.history, strict=True)
            ],
            "recommendations": [
                {
                    "rank": pick.rank,
                    "item": pick.item,
                    "title": pick.title,
                    "score": pick.score,
                    "reason": pick.reason.as_dict(),
                }
                for pick in self.picks
            ],
        }

    def to_json(self) -> str:
        """The same as one JSON document."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def recommend(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    k: int = 10,
    seed: int | None = None,
) -> Recommendations:
    """The top `k` for a user of the data, or for a new history of ids or titles."""
    subject = find_subject(run, user, history)
    model = _model(run, seed)
    (items,), (scores,) = best_unmet(model, subject.as_case(), model.config.max_len, k)
    unmet = np.isfinite(scores)
    items, scores = items[unmet], scores[unmet]
    reasons = _reasons(run, model, subject, items)
    columns = (run.catalog.raw_ids(items), run.catalog.labels(items), scores, reasons)
    picks = tuple(
        Pick(rank, raw, title, float(score), reason)
        for rank, (raw, title, score, reason) in enumerate(zip(*columns, strict=True), start=1)
    )
    shown = subject.items[-model.config.max_len :]
    return Recommendations(
        subject.name, tuple(run.catalog.labels(shown)), tuple(run.catalog.raw_ids(shown)), picks
    )


def recommend_everyone(
    run: Run,
    path: Path | str,
    *,
    k: int = 10,
    seed: int | None = None,
    show_progress: bool = True,
) -> int:
    """The top `k` for every user of the data, into a CSV or Parquet file; how many rows.

    Written chunk by chunk, so memory does not grow with the users; whole or not at all.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    writers = {".csv": pa_csv.CSVWriter, ".parquet": pq.ParquetWriter}
    if suffix not in writers:
        raise InputError(f"{path} ends neither in .csv nor in .parquet; say which by its name.")
    rows = 0
    with new_file(path) as partial:
        writer = None
        for table in _everyone(run, _model(run, seed), k, show_progress):
            writer = writer or writers[suffix](partial, table.schema)
            writer.write_table(table)
            rows += table.num_rows
        assert writer is not None, "interactions without a user cannot be read"
        writer.close()
    return rows


def explain(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int | None = None,
    method: str | None = None,
    seed: int | None = None,
    explain_seed: int = 0,
    memory: int | None = None,
) -> Explanation:
    """Why this item (or the best one) for this user, by one method.

    By default that is rollout, or leave-one-out where the model has no attention.
    """
    method = method or able(_model(run, seed), ("rollout", "leave-one-out"))[0]
    answers = compare(
        run,
        user=user,
        history=history,
        item=item,
        methods=[method],
        seed=seed,
        explain_seed=explain_seed,
        memory=memory,
    )
    return answers[method]


def compare(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int | None = None,
    methods: Sequence[str] | None = None,
    seed: int | None = None,
    explain_seed: int = 0,
    memory: int | None = None,
) -> dict[str, Explanation]:
    """The same question put to several explainers.

    By default they are all that the model has what it takes for. `seed` says which of the run's
    models, `explain_seed` what explainers that draw start from, and `memory` how many bytes may be
    used for altered histories at a time, about.
    """
    subject = find_subject(run, user, history)
    model = _model(run, seed)
    methods = able(model, READY) if methods is None else methods
    target = _target(run, model, subject, item)
    batch = model.read(subject.as_case(), model.config.max_len)
    labels = _labels(run, model, batch, target)
    device = device_of(model)
    targets = torch.tensor([target], device=device)
    return compare_batch(model, batch.to(device), targets, methods, explain_seed, labels, memory)


def reason(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int | None = None,
    seed: int | None = None,
) -> Reason:
    """The checked reason for this item (or the best one), in words."""
    subject = find_subject(run, user, history)
    model = _model(run, seed)
    target = _target(run, model, subject, item)
    (found,) = _reasons(run, model, subject, np.array([target]))
    return found


def find_subject(run: Run, user: object, history: History | None) -> Subject:
    """A user of the data, or the one whose history is given."""
    if (user is None) == (history is None):
        raise InputError(
            "Say either which user (--user), or a history of ids or titles (--history)."
        )
    if history is None:
        data = run.interactions
        number = data.find_user(user)
        return Subject(f"user {user}", data.history(number), number)
    if isinstance(history, str):
        raise InputError("A history is a list of ids or titles, even if it has only one.")
    if not len(history):
        raise InputError("The history is empty; give at least one id or title.")
    found = [run.catalog.find(str(entry)) for entry in history]
    return Subject("this history", np.array(found, dtype=np.int32))


def _everyone(run: Run, model: Recommender, k: int, show_progress: bool) -> Iterator[pa.Table]:
    """Tables of user, rank, item, title and score, for some users at a time."""
    data = run.interactions
    everyone = np.arange(data.user_count)
    cases = Cases(data.items, everyone, data.offsets[:-1], data.offsets[1:], everyone)
    chunks = list(row_slices(len(cases), cases_at_once(data.item_count)))
    bar = progress_bar("recommending", len(chunks), show_progress)
    for rows in bar.track(chunks):
        items, scores = best_unmet(model, cases[rows], model.config.max_len, k)
        real = np.isfinite(scores)
        flat = items[real]
        user, rank = real.nonzero()
        yield pa.table(
            {
                "user": data.users["user"].take(pa.array(everyone[rows][user])),
                "rank": rank + 1,
                "item": data.catalog.table["item"].take(pa.array(flat)),
                "title": data.catalog.labels(flat),
                "score": scores[real],
            }
        )


def _target(run: Run, model: Recommender, subject: Subject, item: str | int | None) -> int:
    """The item asked about, or the best one."""
    if item is not None:
        return run.catalog.find(str(item))
    ((best,),), ((score,),) = best_unmet(model, subject.as_case(), model.config.max_len, 1)
    if not np.isfinite(score):
        raise InputError(f"{subject.name} has met every item; say which one to explain.")
    return int(best)


def _reasons(
    run: Run, model: Recommender, subject: Subject, targets: npt.NDArray[np.int64]
) -> list[Reason]:
    length = model.config.max_len
    if not model.reads_histories:
        device = device_of(model)
        batch, asked = model.read(subject.as_case(), length), torch.from_numpy(targets)
        others = [other for other in run.models.values() if other is not model]
        told = without_items(
            model, batch.to(device), subject.items, asked.to(device), run.verb, others
        )
        data = run.interactions
        if not offers(model, "user_vectors") or data.user_count < 2:
            return told
        near = find_nearby(model.user_vectors(), data, subject.user, targets)
        return [replace(one, nearby=who) for one, who in zip(told, near, strict=True)]
    return find_reasons(model, subject.items, targets, length, run.catalog, run.verb)


def _labels(run: Run, model: Recommender, batch: torch.Tensor, target: int) -> Labels:
    """Names of the parts, and raw ids where they are items; and of the target."""
    titles, raw = tuple(run.catalog.labels([target])), tuple(run.catalog.raw_ids([target]))
    names = model.part_names(batch)
    if names is not None:
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
    """The values of the filled slots in their places."""
    filled = iter(values)
    return tuple(next(filled) if item != PAD else empty for item in slots)


def _model(run: Run, seed: int | None) -> Recommender:
    if seed is None:
        return run.first
    if seed not in run.models:
        known = ", ".join(map(str, run.models))
        raise InputError(f"This run has no seed {seed}; it has {known}.")
    return run.models[seed]
