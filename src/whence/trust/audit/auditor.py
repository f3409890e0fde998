"""`whence.audit`: a run in, an answer to every question out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import whence
from whence.capabilities import require
from whence.errors import InputError, WhenceError
from whence.explainers import find_explainer
from whence.files import new_file, write_json
from whence.models.base import no_history, require_reasons
from whence.progress import print_line
from whence.run import Run
from whence.trust.audit.context import CASES, CONTROL, AuditContext, default_methods, with_control
from whence.trust.audit.finding import Finding
from whence.trust.audit.folder import DOCUMENT, AuditFolder, open_audit_folder
from whence.trust.audit.stage import Stage, chosen_stages
from whence.trust.audit.verdict import Verdict, reach_verdict

FORMAT: Final = 1


@dataclass(frozen=True, eq=False)
class Audit:
    """What was asked of a run and what was found."""

    run: Run
    settings: Mapping[str, Any]
    stages: Mapping[str, Stage]
    findings: Mapping[str, Finding]
    """By stage."""
    obstacles: Mapping[str, str]
    """By stage that could not be answered: why."""
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain types only."""
        run = self.run
        return {
            "format": FORMAT,
            "whence": whence.__version__,
            "run": {
                "folder": None if run.folder is None else str(run.folder),
                "model": run.model,
                "model_settings": dict(run.model_settings),
                "seeds": list(run.models),
                "data": dict(run.data),
            },
            "settings": dict(self.settings),
            "verdict": self.verdict.as_dict(),
            "stages": [self._stage_as_dict(name) for name in self.stages],
        }

    def _stage_as_dict(self, name: str) -> dict[str, Any]:
        stage, finding = self.stages[name], self.findings.get(name)
        return {
            "stage": name,
            "title": stage.title,
            "question": stage.question,
            "not_measured": self.obstacles.get(name),
            "finding": None if finding is None else finding.as_dict(),
        }


def audit(
    run: Run,
    *,
    out: Path | str | None = None,
    stages: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    cases: int = CASES,
    seed: int | None = None,
    memory: int | None = None,
    fresh: bool = False,
    show_progress: bool = True,
) -> Audit:
    """Put a run to every test: is it accurate, and can its reasons be believed?

    With `out`, every finished stage is kept there and `audit.json` is written at the end; the same
    call goes on with what is missing, or with `fresh` begins anew. `cases` held-out histories are
    asked about, of the model of `seed`, by default the first.
    """
    asked = chosen_stages(stages)
    audited = _audited(run, methods, cases, seed, memory, show_progress)
    kept = None if out is None else open_audit_folder(Path(out), run, audited.settings())
    if kept is not None and fresh:
        kept.forget()
    findings: dict[str, Finding] = {}
    obstacles: dict[str, str] = {}
    for number, (name, stage) in enumerate(asked.items(), start=1):
        print_line(f"{number} of {len(asked)}: {stage.question}", show_progress)
        found = _answer(name, stage, audited, kept)
        if isinstance(found, Finding):
            findings[name] = found
        else:
            obstacles[name] = found
    questions = {name: stage.question for name, stage in asked.items()}
    verdict = reach_verdict(findings, questions, audited.spoken)
    if not audited.methods:
        verdict = replace(verdict, sentence=no_history(audited.model, "an explainer"))
    done = Audit(run, audited.settings(), asked, findings, obstacles, verdict)
    if kept is not None:
        with new_file(kept.folder / DOCUMENT) as partial:
            write_json(partial, done.as_dict())
    return done


def _audited(
    run: Run,
    methods: Sequence[str] | None,
    cases: int,
    seed: int | None,
    memory: int | None,
    show_progress: bool,
) -> AuditContext:
    """What can be told to be wrong before anything is computed."""
    if cases < 1:
        raise InputError(f"An audit asks about at least one history, not {cases}.")
    seed = next(iter(run.models)) if seed is None else seed
    if seed not in run.models:
        known = ", ".join(map(str, run.models))
        raise InputError(f"This run has no seed {seed}; it has {known}.")
    model = run.models[seed]
    for method in methods or ():
        require_reasons(model, f"'{method}'")
        require(model, ("parts", "score", *find_explainer(method)[1].needs), who=method)
    chosen = default_methods(model) if methods is None else with_control(methods)
    if methods is not None and chosen == (CONTROL,):
        raise InputError(f"'{CONTROL}' is what explainers are held against; name one beside it.")
    return AuditContext(run, seed, chosen, cases, memory, show_progress)


def _answer(
    name: str, stage: Stage, audited: AuditContext, kept: AuditFolder | None
) -> Finding | str:
    """What is kept, what is found now, or why nothing is."""
    if kept is not None and (found := kept.find(name)) is not None:
        return found
    obstacle = stage.obstacle(audited)
    if obstacle is not None:
        return obstacle
    try:
        found = stage.find(audited)
    except WhenceError as problem:
        return str(problem)
    if kept is not None and found.complete:
        kept.keep(name, found)
    return found
