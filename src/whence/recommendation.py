"""The verbs over a run: recommend, explain, compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import torch
from torch import Tensor

from whence.contract import row_slices
from whence.data.histories import Cases, one_history
from whence.errors import InputError
from whence.explainers import EXPLAINERS, compare_batch
from whence.explanation import Explanation, Labels
from whence.files import new_file
from whence.models import Recommender
from whence.progress import progress_bar
from whence.ranking import cases_at_once, device_of, score_unmet
from whence.reasons import Reason, find_reasons
from whence.run import Run

History = Sequence[str | int]


@dataclass(frozen=True)
class Subject:
    """Whom to recommend to: a name and all their items, oldest first."""

    name: str
    items: npt.NDArray[np.int32]

    def as_case(self) -> Cases:
        """The history as a case without a target."""
        size = np.array([len(self.items)])
        zero = np.array([0])
        return Cases(self.items, users=zero, starts=zero, ends=size, targets=zero)


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
    picks: tuple[Pick, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {
            "for": self.name,
            "history": list(self.history),
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
    (items,), (scores,) = _top(model, subject.as_case(), k)
    unmet = np.isfinite(scores)
    items, scores = items[unmet], scores[unmet]
    batch = _batch(model, subject)
    labels = _slot_labels(run, batch)
    targets = torch.from_numpy(items).to(batch.device)
    reasons = find_reasons(model, batch, targets, labels, run.verb)
    columns = (run.catalog.raw_ids(items), run.catalog.labels(items), scores, reasons)
    picks = tuple(
        Pick(rank, raw, title, float(score), reason)
        for rank, (raw, title, score, reason) in enumerate(zip(*columns, strict=True), start=1)
    )
    shown = tuple(run.catalog.labels(subject.items[-model.config.length :]))
    return Recommendations(subject.name, shown, picks)


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
    writers = {".csv": pa_csv.CSVWriter, ".parquet": pq.ParquetWriter}
    if path.suffix not in writers:
        raise InputError(f"{path} ends neither in .csv nor in .parquet; say which by its name.")
    rows = 0
    with new_file(path) as partial:
        writer = None
        for table in _everyone(run, _model(run, seed), k, show_progress):
            writer = writer or writers[path.suffix](partial, table.schema)
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
    method: str = "rollout",
    seed: int | None = None,
) -> Explanation:
    """Why this item (or the best one) for this user, by one method."""
    answers = compare(run, user=user, history=history, item=item, methods=[method], seed=seed)
    return answers[method]


def compare(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int | None = None,
    methods: Sequence[str] = tuple(EXPLAINERS),
    seed: int | None = None,
) -> dict[str, Explanation]:
    """The same question put to several explainers; by default to all."""
    subject = find_subject(run, user, history)
    model = _model(run, seed)
    batch = _batch(model, subject)
    if item is None:
        target = int(_top(model, subject.as_case(), 1)[0][0, 0])
    else:
        target = run.catalog.find(str(item))
    labels = Labels((tuple(_slot_labels(run, batch)),), tuple(run.catalog.labels([target])))
    targets = torch.tensor([target], device=batch.device)
    return compare_batch(model, batch, targets, methods, seed or 0, labels)


def find_subject(run: Run, user: object, history: History | None) -> Subject:
    """A user of the data, or the one whose history is given."""
    if (user is None) == (history is None):
        raise InputError("Say either which user, or a history of ids or titles.")
    if history is not None:
        if not history:
            raise InputError("The history is empty; give at least one id or title.")
        found = [run.catalog.find(str(entry)) for entry in history]
        return Subject("this history", np.array(found, dtype=np.int32))
    data = run.interactions
    return Subject(f"user {user}", data.history(data.find_user(user)))


def _everyone(run: Run, model: Recommender, k: int, show_progress: bool) -> Iterator[pa.Table]:
    """Tables of user, rank, item, title and score, for some users at a time."""
    data = run.interactions
    everyone = np.arange(data.user_count)
    cases = Cases(data.items, everyone, data.offsets[:-1], data.offsets[1:], everyone)
    chunks = list(row_slices(len(cases), cases_at_once(data.item_count)))
    bar = progress_bar("recommending", len(chunks), show_progress)
    for rows in bar.track(chunks):
        items, scores = _top(model, cases[rows], k)
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


def _top(
    model: Recommender, cases: Cases, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """`[B, k]`: the best unmet items and their scores."""
    if k < 1:
        raise InputError(f"Ask for at least one recommendation, not {k}.")
    scores = score_unmet(model, cases, model.config.length)
    best = scores.topk(min(k, scores.shape[1]), dim=1)
    return best.indices.numpy(), best.values.numpy()


def _batch(model: Recommender, subject: Subject) -> Tensor:
    """`[1, n]` on the model's device."""
    return torch.from_numpy(one_history(subject.items, model.config.length)).to(device_of(model))


def _slot_labels(run: Run, batch: Tensor) -> list[str]:
    """A title for every slot, empty for padding."""
    slots = batch[0].cpu().numpy()
    titles = iter(run.catalog.labels(slots[slots >= 0]))
    return [next(titles) if item >= 0 else "" for item in slots]


def _model(run: Run, seed: int | None) -> Recommender:
    if seed is None:
        return run.first
    if seed not in run.models:
        known = ", ".join(map(str, run.models))
        raise InputError(f"This run has no seed {seed}; it has {known}.")
    return run.models[seed]
