"""The result every explainer returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.arrays import Floats


@dataclass(frozen=True)
class Labels:
    """Names a person knows, and raw ids, for the slots and the target of each case."""

    parts: tuple[tuple[str, ...], ...]
    target: tuple[str, ...] | None = None
    part_ids: tuple[tuple[Any, ...], ...] | None = None
    target_ids: tuple[Any, ...] | None = None

    def __getitem__(self, case: slice) -> Labels:
        """The labels of some cases."""
        return Labels(
            self.parts[case],
            self.target and self.target[case],
            self.part_ids and self.part_ids[case],
            self.target_ids and self.target_ids[case],
        )


@dataclass(frozen=True, eq=False)
class Explanation:
    """The importance of each part of `B` cases for one target each."""

    scores: Floats
    """`[B, n]`; 0 where there is no part."""
    parts: npt.NDArray[np.bool_]
    """`[B, n]`; which slots are parts."""
    target: npt.NDArray[np.int64]
    """`[B]`; the item or class explained."""
    full_score: Floats
    """`[B]`; the target's score with every part present."""
    empty_score: Floats
    """`[B]`; the same with no part present."""
    removal: str
    """What "not present" means for this model."""
    method: str
    parameters: Mapping[str, Any]
    seed: int
    evaluations: npt.NDArray[np.int64]
    """`[B]`; inputs the model scored for each case, not counting the full and the empty one."""
    signed: bool
    """Whether a negative importance says that the part argues against the target."""
    error: Floats | None = None
    """`[B, n]` standard errors where the method samples, else nothing."""
    labels: Labels | None = None

    def __len__(self) -> int:
        """How many cases."""
        return len(self.target)

    def __getitem__(self, cases: int | slice) -> Explanation:
        """One case or some, as an explanation of their own."""
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

    def magnitude(self) -> Floats:
        """How much each part matters, for or against."""
        size: Floats = np.abs(self.scores)
        return size

    def strongest(self, case: int, top: int | None = None) -> list[int]:
        """The case's part slots, most important first; equals stay in slot order."""
        slots = np.flatnonzero(self.parts[case])
        order = np.argsort(-self.magnitude()[case, slots], kind="stable")
        return [int(slot) for slot in slots[order][:top]]

    def part_name(self, case: int, slot: int) -> str:
        """The part's label, or its slot number."""
        return self.labels.parts[case][slot] if self.labels else f"slot {slot}"

    def target_name(self, case: int) -> str:
        """The target's label, or its number."""
        if self.labels and self.labels.target:
            return self.labels.target[case]
        return f"target {self.target[case]}"

    def as_dict(self) -> dict[str, Any]:
        """Plain types only: method and settings once, then every case with its parts."""
        return {
            "method": self.method,
            "parameters": dict(self.parameters),
            "signed": self.signed,
            "removal": self.removal,
            "seed": self.seed,
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

    def to_json(self) -> str:
        """The same as one JSON document."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def show(self, top: int = 10) -> None:
        """Print each case's strongest parts as bars, with standard errors where they were drawn."""
        from rich import box
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        for case in range(len(self)):
            title = f"{escape(self.target_name(case))} ({self.method})"
            table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
            table.add_column("part")
            table.add_column("importance", justify="right")
            if self.error is not None:
                table.add_column("±", justify="right")
            table.add_column("")
            scale = float(self.magnitude()[case].max(initial=0.0))
            for slot in self.strongest(case, top):
                value = float(self.scores[case, slot])
                error = [] if self.error is None else [f"{self.error[case, slot]:.4f}"]
                table.add_row(
                    escape(self.part_name(case, slot)),
                    f"{value:.4f}",
                    *error,
                    bar(value, scale, self.signed),
                )
            Console().print(table)


def bar(value: float, scale: float, signed: bool, width: int = 12) -> str:
    """A text bar of at most `width` cells: green for, red against, blue where no side is taken."""
    cells = round(width * abs(value) / scale) if scale > 0 else 0
    colour = ("green" if value >= 0 else "red") if signed else "blue"
    return f"[{colour}]{'█' * cells}[/]" if cells else ""
