"""The result that every explainer returns, and what reports call its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.arrays import Floats
from whence.console import SafeConsole
from whence.contract import offers
from whence.terminal import Result, plain_table

MOST_SLOTS: Final = 10**8
"""A few bytes may announce any number of slots, and each takes memory."""
BAR_CELLS: Final = 10
"""The longest bar; a signed bar has as many cells on each side of its axis."""


@dataclass(frozen=True)
class Wording:
    """What reports call a part and the whole that it belongs to, in the singular and plural."""

    part: str
    a_part: str
    parts: str
    whole: str
    wholes: str

    def fill(self, text: str) -> str:
        """Return the text with `{part}` and the other placeholders replaced."""
        return text.format(**asdict(self))


ITEM_WORDING: Final = Wording("item", "an item", "items", "history", "histories")
GROUP_WORDING: Final = Wording("part", "a part", "parts", "case", "cases")
"""Not "items", which are what the model recommends."""


def wording_of(model: object) -> Wording:
    """Return the words for the parts of a model."""
    return GROUP_WORDING if offers(model, "part_names") else ITEM_WORDING


@dataclass(frozen=True)
class Labels:
    """Names a person knows, and raw ids, for the slots and the target of each case."""

    parts: tuple[tuple[str, ...], ...]
    target: tuple[str, ...] | None = None
    part_ids: tuple[tuple[Any, ...], ...] | None = None
    target_ids: tuple[Any, ...] | None = None

    def __getitem__(self, case: slice) -> Labels:
        """Return the labels of some cases."""
        return Labels(
            self.parts[case],
            self.target and self.target[case],
            self.part_ids and self.part_ids[case],
            self.target_ids and self.target_ids[case],
        )


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """The importance of each part of `B` cases for one target each."""

    scores: Floats
    """`[B, n]`; 0 in slots that are not parts."""
    parts: npt.NDArray[np.bool_]
    """`[B, n]`; which slots are parts."""
    target: npt.NDArray[np.int64]
    """`[B]`; the item or class explained."""
    full_score: Floats
    """`[B]`; the target's score with every part present."""
    empty_score: Floats
    """`[B]`; the target's score with no part present."""
    removal: str
    """What "not present" means for this model."""
    method: str
    parameters: Mapping[str, Any]
    seed: int
    evaluations: npt.NDArray[np.int64]
    """`[B]`; inputs the model scored for each case, besides the full and the empty one."""
    signed: bool
    """Whether a negative score means that the part argues against the target."""
    error: Floats | None = None
    """`[B, n]` standard errors, if the method samples."""
    labels: Labels | None = None
    model_seed: int | None = None
    """The seed of the run's model that was explained; `None` if all of them were, as one."""

    def __len__(self) -> int:
        """Return the number of cases."""
        return len(self.target)

    def __getitem__(self, cases: int | slice) -> Explanation:
        """Return the explanation of one case or of some."""
        if not isinstance(cases, slice):
            first = range(len(self))[cases]
            cases = slice(first, first + 1)
        return replace(
            self,
            scores=self.scores[cases],
            parts=self.parts[cases],
            target=self.target[cases],
            full_score=self.full_score[cases],
            empty_score=self.empty_score[cases],
            evaluations=self.evaluations[cases],
            error=None if self.error is None else self.error[cases],
            labels=self.labels and self.labels[cases],
        )

    def in_slots(self, slots: int) -> Explanation:
        """Return the same without labels, with empty slots in front to have this many."""
        missing = ((0, 0), (slots - self.scores.shape[1], 0))
        return replace(
            self,
            scores=np.pad(self.scores, missing),
            parts=np.pad(self.parts, missing),
            error=None if self.error is None else np.pad(self.error, missing),
            labels=None,
        )

    def magnitude(self) -> Floats:
        """Return the absolute scores: how much each part matters, for or against."""
        size: Floats = np.abs(self.scores)
        return size

    def strongest(self, case: int, top: int | None = None) -> list[int]:
        """Return the case's part slots, most important first; ties stay in slot order."""
        slots = np.flatnonzero(self.parts[case])
        order = np.argsort(-self.magnitude()[case, slots], kind="stable")
        return [int(slot) for slot in slots[order][:top]]

    def part_name(self, case: int, slot: int) -> str:
        """Return the part's label, or its slot number."""
        return self.labels.parts[case][slot] if self.labels else f"slot {slot}"

    def target_name(self, case: int) -> str:
        """Return the target's label, or its number."""
        if self.labels and self.labels.target:
            return self.labels.target[case]
        return f"target {self.target[case]}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only: method and settings once, then every case with its parts."""
        return {
            "method": self.method,
            "parameters": dict(self.parameters),
            "signed": self.signed,
            "removal": self.removal,
            "seed": self.seed,
            **({} if self.model_seed is None else {"model_seed": self.model_seed}),
            "slots": self.scores.shape[1],
            "cases": [self._case_as_dict(case) for case in range(len(self))],
        }

    def _case_as_dict(self, case: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        for slot in np.flatnonzero(self.parts[case]).tolist():
            part: dict[str, Any] = {"slot": slot, "score": float(self.scores[case, slot])}
            if self.labels:
                part["label"] = self.labels.parts[case][slot]
            if self.labels and self.labels.part_ids:
                part["item"] = self.labels.part_ids[case][slot]
            if self.error is not None:
                part["error"] = float(self.error[case, slot])
            parts.append(part)
        target: dict[str, Any] = {"index": int(self.target[case])}
        if self.labels and self.labels.target:
            target["label"] = self.labels.target[case]
        if self.labels and self.labels.target_ids:
            target["item"] = self.labels.target_ids[case]
        return {
            "target": target,
            "full_score": float(self.full_score[case]),
            "empty_score": float(self.empty_score[case]),
            "evaluations": int(self.evaluations[case]),
            "parts": parts,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Explanation:
        """Return the explanation that `as_dict` described, with the same numbers to the last bit.

        Slots that are not parts have the label "".
        """
        cases, slots = document["cases"], document["slots"]
        if slots * len(cases) > MOST_SLOTS:
            raise ValueError("more slots than any explanation has")
        targets = [case["target"] for case in cases]

        def by_slot(key: str, empty: Any) -> list[list[Any]] | None:  # noqa: ANN401
            """Return `key` of every slot of every case, or nothing if no part has it."""
            if not any(key in part for case in cases for part in case["parts"]):
                return None
            found = [{part["slot"]: part[key] for part in case["parts"]} for case in cases]
            return [[case.get(slot, empty) for slot in range(slots)] for case in found]

        def numbers(key: str) -> Floats:
            found = by_slot(key, 0.0) or np.zeros((len(cases), slots))
            return np.array(found, np.float64).reshape(len(cases), slots)

        def by_case(key: str, kind: type[Any] = np.float64) -> npt.NDArray[Any]:
            return np.array([case[key] for case in cases], kind).reshape(len(cases))

        is_part = np.zeros((len(cases), slots), bool)
        for row, case in enumerate(cases):
            is_part[row, [part["slot"] for part in case["parts"]]] = True
        return cls(
            scores=numbers("score"),
            parts=is_part,
            target=np.array([one["index"] for one in targets], np.int64).reshape(len(cases)),
            full_score=by_case("full_score"),
            empty_score=by_case("empty_score"),
            removal=document["removal"],
            method=document["method"],
            parameters=document["parameters"],
            seed=document["seed"],
            evaluations=by_case("evaluations", np.int64),
            signed=document["signed"],
            error=numbers("error") if by_slot("error", 0.0) else None,
            labels=_labels(by_slot("label", ""), by_slot("item", None), targets),
            model_seed=document.get("model_seed"),
        )

    def __repr__(self) -> str:
        cases = "1 case" if len(self) == 1 else f"{len(self):,} cases"
        return f"Explanation({self.method!r}, {cases}, {int(self.parts.sum()):,} parts)"

    def __rich__(self) -> Group:
        return self._tables(top=10)

    def show(self, top: int = 10) -> None:
        """Print each case's strongest parts as bars, with standard errors if there are any."""
        SafeConsole().print(self._tables(top))

    def _tables(self, top: int) -> Group:
        return Group(*(self._table(case, top) for case in range(len(self))))

    def _table(self, case: int, top: int) -> Table:
        errors = [] if self.error is None else ["±"]
        title = f"{self.target_name(case)} ({self.method})"
        table = plain_table(title, "part", "importance", *errors, "")
        for column in table.columns[1:-1]:
            column.justify = "right"
        scale = float(self.magnitude()[case].max(initial=0.0))
        for slot in self.strongest(case, top):
            value = float(self.scores[case, slot])
            error = [] if self.error is None else [f"{self.error[case, slot]:.4f}"]
            shown = bar(value, scale, self.signed)
            table.add_row(self.part_name(case, slot), f"{value:.4f}", *error, shown)
        return table


def _labels(
    parts: list[list[Any]] | None, ids: list[list[Any]] | None, targets: list[dict[str, Any]]
) -> Labels | None:
    """Return the labels that a document holds, if it holds any."""
    if parts is None:
        return None

    def of_targets(key: str) -> tuple[Any, ...] | None:
        return tuple(one[key] for one in targets) if all(key in one for one in targets) else None

    return Labels(
        tuple(map(tuple, parts)),
        of_targets("label"),
        None if ids is None else tuple(map(tuple, ids)),
        of_targets("item"),
    )


def bar(value: float, scale: float, signed: bool) -> Text:
    """Return a text bar. A signed value goes to the left of an axis if it is negative."""
    cells = round(BAR_CELLS * abs(value) / scale) if scale > 0 else 0
    blocks = "█" * cells
    if not signed:
        return Text(blocks, "blue")
    left, right = ("", blocks) if value >= 0 else (blocks, "")
    return Text.assemble((f"{left:>{BAR_CELLS}}", "red"), "│", (f"{right:<{BAR_CELLS}}", "green"))
