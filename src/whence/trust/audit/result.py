"""The result of an audit: an answer to every question, which can be shown, saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Group
from rich.text import Text

import whence
from whence.config import build
from whence.console import plain
from whence.errors import InputError
from whence.explanation import GROUP_WORDING, ITEM_WORDING, Wording, wording_of
from whence.run import Run
from whence.terminal import Result, plain_table
from whence.text import visible
from whence.trust.audit.finding import Finding
from whence.trust.audit.verdict import Verdict

FORMAT: Final = 2
FORMER: Final = 1
"""The format of version 0.1."""
DOCUMENT: Final = "audit.json"
NOT_MEASURED: Final = "not measured"
COLOURS: Final = {"yes": "green", "partly": "yellow", "no": "red", NOT_MEASURED: "dim"}
FORMER_STAGES: Final = {"likeness": "truth"}
"""Stages of version 0.1 by their current names."""
FORMER_OF_GROUPS: Final = ("content-ncf", "intrp-ncf")
"""The models of version 0.1 whose parts are groups of features."""


@dataclass(frozen=True)
class StageResult:
    """A stage's question, and its finding or the reason why there is none."""

    title: str
    question: str
    finding: Finding | None = None
    obstacle: str | None = None

    @property
    def answer(self) -> str:
        """Yes, partly, no or not measured."""
        return NOT_MEASURED if self.finding is None else self.finding.answer


@dataclass(frozen=True)
class AuditedRun:
    """What a reader needs to know about the run."""

    folder: str | None
    model: str
    model_settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    data: Mapping[str, Any]
    part: str = ITEM_WORDING.part
    """What one part of the model's input is called."""
    recommends: str = ""
    """The models that recommend together, in words."""

    @property
    def wording(self) -> Wording:
        """What a reader calls the parts of a case."""
        return GROUP_WORDING if self.part == GROUP_WORDING.part else ITEM_WORDING


def describe_run(run: Run) -> AuditedRun:
    """Return what an audit keeps of its run."""
    return AuditedRun(
        None if run.folder is None else str(run.folder),
        run.model,
        dict(run.model_settings),
        tuple(run.models),
        dict(run.data),
        wording_of(run.whole).part,
        run.members,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """The answers to the questions that were asked about a run."""

    run: AuditedRun
    settings: Mapping[str, Any]
    stages: Mapping[str, StageResult]
    """By name, in the order of the audit."""
    verdict: Verdict
    command: str = ""
    """The command that repeats the audit."""

    @property
    def findings(self) -> dict[str, Finding]:
        """The findings by stage."""
        return {name: one.finding for name, one in self.stages.items() if one.finding is not None}

    @property
    def obstacles(self) -> dict[str, str]:
        """By stage that could not run: why, in one sentence."""
        return {name: one.obstacle for name, one in self.stages.items() if one.obstacle is not None}

    def __repr__(self) -> str:
        answers = ", ".join(f"{name}: {one.answer}" for name, one in self.stages.items())
        return visible(f"Audit({self.run.model}, use {self.verdict.explainer}; {answers})")

    def __rich__(self) -> Group:
        """Return the verdict, and every question with its answer."""
        table = plain_table("", "", "")
        table.show_header = False
        for one in self.stages.values():
            said = one.finding.summary if one.finding else one.obstacle or ""
            answer = Text.assemble((one.answer, COLOURS[one.answer]))
            table.add_row(answer, Text("\n").join([plain(one.question, "bold"), plain(said)]))
        table.columns[0].no_wrap = True
        verdict = [plain(self.verdict.sentence, "bold"), plain(self.verdict.caution)]
        return Group(*verdict, table)

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only."""
        return {
            "format": FORMAT,
            "whence": whence.__version__,
            "run": {**asdict(self.run), "seeds": list(self.run.seeds)},
            "settings": dict(self.settings),
            "command": self.command,
            "verdict": self.verdict.as_dict(),
            "stages": [_stage_as_dict(name, one) for name, one in self.stages.items()],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Audit:
        """Return the audit that `as_dict` described, also by version 0.1."""
        if document.get("format") not in (FORMER, FORMAT):
            raise InputError(
                f"This audit has the format {document.get('format')}; this version of Whence reads "
                f"formats {FORMER} and {FORMAT}. Update Whence to open it."
            )
        if document["format"] == FORMER:
            document = _from_former(document)
        return cls(
            build(AuditedRun, document["run"]),
            document["settings"],
            {one["stage"]: _stage_from_dict(one) for one in document["stages"]},
            build(Verdict, document["verdict"]),
            document["command"],
        )

    @classmethod
    def load(cls, path: Path | str) -> Audit:
        """Return the audit in a file, or in the folder that an audit wrote."""
        place = Path(path)
        return super().load(place / DOCUMENT if place.is_dir() else place)


def _stage_as_dict(name: str, one: StageResult) -> dict[str, Any]:
    return {
        "stage": name,
        "title": one.title,
        "question": one.question,
        "not_measured": one.obstacle,
        "finding": None if one.finding is None else one.finding.as_dict(),
    }


def _stage_from_dict(fields: Mapping[str, Any]) -> StageResult:
    finding = None if fields["finding"] is None else Finding.from_dict(fields["finding"])
    return StageResult(fields["title"], fields["question"], finding, fields["not_measured"])


def _from_former(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of version 0.1 in the current format."""

    def name_of(stage: str | None) -> str | None:
        return FORMER_STAGES.get(stage or "", stage)

    run, settings, verdict = (dict(document[one]) for one in ("run", "settings", "verdict"))
    groups = run["model"] in FORMER_OF_GROUPS
    return {
        **document,
        "run": {**run, "part": (GROUP_WORDING if groups else ITEM_WORDING).part},
        "settings": {"model_seed": settings.pop("seed"), **settings},
        "command": "",
        "verdict": {**verdict, "basis": name_of(verdict["basis"])},
        "stages": [{**one, "stage": name_of(one["stage"])} for one in document["stages"]],
    }
