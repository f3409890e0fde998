"""`whence.audit`: test a run, and write a report."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import whence
from whence.capabilities import require
from whence.contract import DROPPED
from whence.data.sources import Source
from whence.devices import device_of
from whence.errors import InputError, WhenceError
from whence.explainers import find_explainer
from whence.files import (
    MANIFEST,
    check_own_file,
    make_parent,
    new_file,
    read_json,
    refuse_links,
    sha256,
    write_json,
    writing,
)
from whence.locks import lock
from whence.models.base import no_history, require_reasons
from whence.models.dropping import unless_own, with_removal
from whence.progress import print_line
from whence.run import Run
from whence.trust.audit.context import CASES, CONTROL, AuditContext, default_methods, with_control
from whence.trust.audit.finding import Finding
from whence.trust.audit.result import DOCUMENT, Audit, StageResult, describe_run
from whence.trust.audit.stage import STAGES, Stage, chosen_stages
from whence.trust.audit.verdict import reach_verdict

STAGES_FOLDER: Final = "stages"
PAGE: Final = "audit.html"
ONE_MODEL: Final = "Attention belongs to one model."


def audit(
    run: Run,
    *,
    out: Path | str | None = None,
    stages: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    cases: int = CASES,
    model_seed: int | None = None,
    memory: int | None = None,
    removal: str | None = None,
    data: Source | None = None,
    fresh: bool = False,
    show_progress: bool = True,
) -> Audit:
    """Test a run: is the model accurate, and can its reasons be believed?

    With `out`, the folder receives `audit.json`, the page `audit.html` and every finished stage.
    The same call resumes an interrupted audit; `fresh` starts over. `cases` is the number of
    held-out histories to use. `model_seed` picks one of the run's models. By default they are
    tested as the one recommender that they are; if a method needs attention, which belongs to one
    model, that of the first seed is tested. `removal` is how parts are removed, by explainers and
    by tests of them: by default as the model does, or "dropped", as if they had never been in the
    history. `data` are the data of the training, if no private copy of them is here.
    """
    asked = chosen_stages(stages)
    run = run if data is None else run.with_training_data(data)
    context = _context(run, methods, cases, model_seed, memory, removal, show_progress)
    command = _command(run, out, stages, methods, cases, model_seed, removal)
    if out is None:
        return _answer_all(asked, context, None, command)
    folder = open_audit_folder(Path(out), run, context.settings())
    with lock(folder.folder.resolve()):
        if fresh:
            folder.clear()
        done = _answer_all(asked, context, folder, command)
        folder.write(done)
    return done


def _answer_all(
    asked: Mapping[str, Stage], context: AuditContext, folder: AuditFolder | None, command: str
) -> Audit:
    """Return the answers of all stages, and the verdict."""
    results: dict[str, StageResult] = {}
    for number, (name, stage) in enumerate(asked.items(), start=1):
        print_line(f"{number} of {len(asked)}: {stage.question}", context.show_progress)
        results[name] = _answer(name, stage, context, folder)
    findings = {name: one.finding for name, one in results.items() if one.finding is not None}
    questions = {name: stage.question for name, stage in asked.items()}
    verdict = reach_verdict(findings, questions, context.wording)
    if not context.methods:
        verdict = replace(verdict, sentence=no_history(context.model, "an explainer"))
    return Audit(describe_run(context.run), context.settings(), results, verdict, command)


def _context(
    run: Run,
    methods: Sequence[str] | None,
    cases: int,
    model_seed: int | None,
    memory: int | None,
    removal: str | None,
    show_progress: bool,
) -> AuditContext:
    """Check what can be checked before anything is computed."""
    if cases < 1:
        raise InputError(f"An audit needs at least one history, not {cases}.")
    if run.newer:
        raise InputError(
            "An audit needs the data that the run was trained on, to tell which events it has not "
            "seen, and these are others. Open the run without newer data."
        )
    if model_seed is None:
        model_seed = run.seed_offering(need for one in methods or () for need in _needs(one))
        if model_seed is not None:
            print_line(f"{ONE_MODEL} The model of seed {model_seed} is tested.", show_progress)
    asked, removal = removal, unless_own(run.chosen(model_seed), removal)
    model = with_removal(run.chosen(model_seed), removal)
    for method in methods or ():
        require_reasons(model, f"'{method}'")
        require(model, _needs(method), who=method)
    chosen = default_methods(model) if methods is None else with_control(methods)
    if methods is not None and chosen == (CONTROL,):
        raise InputError(
            f"'{CONTROL}' is what explainers are compared with; name at least one other explainer."
        )
    return AuditContext(
        run,
        model_seed,
        chosen,
        cases,
        memory,
        removal,
        sentence_removal=asked or DROPPED,
        show_progress=show_progress,
    )


def _needs(method: str) -> tuple[str, ...]:
    return ("parts", "score", *find_explainer(method)[1].needs)


def _answer(
    name: str, stage: Stage, context: AuditContext, folder: AuditFolder | None
) -> StageResult:
    """Return the finding, saved or new, or the reason why there is none."""
    unanswered = StageResult(stage.title, stage.question)
    if folder is not None and (found := folder.load_stage(name)) is not None:
        return replace(unanswered, finding=found)
    one_seed = stage.needs_one_seed(context)
    if one_seed:
        context = context.for_one_seed()
    obstacle = stage.obstacle(context)
    if obstacle is not None:
        return replace(unanswered, obstacle=obstacle)
    try:
        found = stage.find(context)
        if one_seed:
            note = f"{ONE_MODEL} This is the model of seed {context.seed}."
            found = replace(found, notes=(*found.notes, note))
    except WhenceError as problem:
        return replace(unanswered, obstacle=str(problem))
    if folder is not None and found.complete:
        folder.save_stage(name, found)
    return replace(unanswered, finding=found)


def _command(
    run: Run,
    out: Path | str | None,
    stages: Sequence[str] | None,
    methods: Sequence[str] | None,
    cases: int,
    model_seed: int | None,
    removal: str | None,
) -> str:
    """Return the command that repeats the audit; other options do not change its results."""
    folder, device = run.folder or Path("RUN"), device_of(run.first).type
    words = ["whence", "audit", str(folder)]
    words += ["--out", str(out)] if out is not None and Path(out) != default_folder(folder) else []
    words += ["--stages", ",".join(stages)] if stages is not None else []
    words += ["--cases", str(cases)] if cases != CASES else []
    words += [word for method in methods or () for word in ("--method", method)]
    words += ["--model-seed", str(model_seed)] if model_seed is not None else []
    words += ["--removal", removal] if removal is not None else []
    words += ["--device", device] if device != "cpu" else []
    return shlex.join(words)


@dataclass(frozen=True)
class AuditFolder:
    """The folder of an audit: a finished stage is written at once, so it never runs twice."""

    folder: Path
    run: str
    """The checksum of the run's manifest, which has those of all its files."""
    settings: Mapping[str, Any]

    def load_stage(self, stage: str) -> Finding | None:
        """Return a saved finding, unless it is broken or of another run or other settings."""
        path = self._file(stage)
        if not path.exists():
            return None
        try:
            document = read_json(path)
            return Finding.from_dict(document["finding"]) if document["key"] == self.key else None
        except (InputError, KeyError, TypeError, AttributeError, ValueError):
            return None

    def save_stage(self, stage: str, finding: Finding) -> None:
        """Write a finding for the next time."""
        with new_file(self._file(stage)) as partial:
            write_json(partial, {"stage": stage, "key": self.key, "finding": finding.as_dict()})

    def clear(self) -> None:
        """Delete the saved stages."""
        with writing(self.folder):
            for path in _visible(self.folder / STAGES_FOLDER):
                path.unlink()

    def write(self, done: Audit) -> None:
        """Write the finished audit as JSON and as a page."""
        from whence.report.audit_page import write_audit  # draws charts, which takes long to import

        done.save(self.folder / DOCUMENT)
        write_audit(done, self.folder / PAGE)

    @property
    def key(self) -> str:
        """Identifies the run and the settings; equal keys mean equal findings."""
        described = {"run": self.run, **self.settings, "whence": whence.__version__}
        canonical = json.dumps(described, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _file(self, stage: str) -> Path:
        return self.folder / STAGES_FOLDER / f"{stage}.json"


def open_audit_folder(folder: Path, run: Run, settings: Mapping[str, Any]) -> AuditFolder:
    """Return an audit's folder, new or old; raise if it holds anything else."""
    if run.folder is None:
        raise InputError("This run exists in memory only; save it first with run.save(folder).")
    known = {STAGES_FOLDER, DOCUMENT, PAGE}
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the audit.")
    refuse_links(folder)
    others = [path.name for path in _visible(folder) if path.name not in known]
    others += [
        f"{STAGES_FOLDER}/{path.name}"
        for path in _visible(folder / STAGES_FOLDER)
        if not _is_stage(path)
    ]
    if others:
        raise InputError(
            f"{folder} contains {min(others)}, so it is not the folder of an audit; name another."
        )
    for path in (folder / DOCUMENT, folder / PAGE):
        check_own_file(path)
    make_parent(folder / DOCUMENT)
    return AuditFolder(folder, sha256(run.folder / MANIFEST), settings)


def _visible(folder: Path) -> list[Path]:
    """Return what is in a folder, but not what file managers and interrupted writes leave."""
    found = folder.iterdir() if folder.is_dir() else iter(())
    return [path for path in found if not path.name.startswith(".")]


def _is_stage(path: Path) -> bool:
    """Return whether a file is a saved stage, which may be damaged or of a plug-in that is gone."""
    if path.suffix == ".json" and path.stem in STAGES:
        return True
    try:
        return {"stage", "key", "finding"} <= read_json(path).keys()
    except InputError:
        return False


def default_folder(run: Path) -> Path:
    """Return the folder next to the run."""
    folder = run.resolve()
    return folder.with_name(f"{folder.name}-audit")
