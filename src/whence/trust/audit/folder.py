"""The folder of an audit: a finished stage is written at once and need not run twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import whence
from whence.errors import InputError
from whence.files import MANIFEST, make_parent, new_file, read_json, sha256, write_json
from whence.run import Run
from whence.trust.audit.finding import Finding, read_finding

STAGES_FOLDER: Final = "stages"
DOCUMENT: Final = "audit.json"
PAGE: Final = "audit.html"


@dataclass(frozen=True)
class AuditFolder:
    """What an audit has found so far, by what it was found from."""

    folder: Path
    run: str
    """The checksum of the run's manifest, which has those of all its files."""
    settings: Mapping[str, Any]

    def find(self, stage: str) -> Finding | None:
        """What was found before; of another run, with other settings or broken, nothing."""
        path = self._file(stage)
        if not path.exists():
            return None
        try:
            document = read_json(path)
            return read_finding(document["finding"]) if document["key"] == self.key else None
        except (InputError, KeyError, TypeError, AttributeError, ValueError):
            return None

    def keep(self, stage: str, finding: Finding) -> None:
        """For the next time."""
        with new_file(self._file(stage)) as partial:
            write_json(partial, {"stage": stage, "key": self.key, "finding": finding.as_dict()})

    def forget(self) -> None:
        """Begin anew."""
        for path in (self.folder / STAGES_FOLDER).glob("*.json"):
            path.unlink()

    @property
    def key(self) -> str:
        """Equal where the same would be found."""
        described = {"run": self.run, **self.settings, "whence": whence.__version__}
        canonical = json.dumps(described, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _file(self, stage: str) -> Path:
        return self.folder / STAGES_FOLDER / f"{stage}.json"


def open_audit_folder(folder: Path, run: Run, settings: Mapping[str, Any]) -> AuditFolder:
    """An audit's folder, new or old; one that holds something else is left alone."""
    if run.folder is None:
        raise InputError("This run is in memory alone; save it first, with run.save(folder).")
    known = {STAGES_FOLDER, DOCUMENT, PAGE}
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the audit.")
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    # What a stopped writer or a file manager leaves behind begins with a dot.
    others = {name for name in names - known if not name.startswith(".")}
    if others:
        raise InputError(
            f"{folder} holds {min(others)}, so it is not an audit's; name another folder."
        )
    make_parent(folder / DOCUMENT)
    return AuditFolder(folder, sha256(run.folder / MANIFEST), settings)


def default_folder(run: Path) -> Path:
    """Beside the run."""
    folder = run.resolve()
    return folder.with_name(f"{folder.name}-audit")
