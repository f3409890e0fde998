"""Made-up sessions as the challenge's files, with the true causes beside them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

import whence
from whence.errors import InputError
from whence.files import MANIFEST, new_folder, read_json, write_json
from whence_studies.sessions.causes import CAUSE, Cause
from whence_studies.sessions.columns import POSITION, SESSION
from whence_studies.sessions.listening import LOGS_OF_A_DAY, day_of, make_log
from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.session_files import CAUSES, LOGS, TRACKS, SessionFiles, find_files
from whence_studies.sessions.synthetic_tracks import MadeTracks, make_tracks

TRACK_FILES: Final = 2
LISTENING: Final = "listening"
"""Where the manifest has the settings."""


def write_sessions(
    folder: Path, config: ListeningConfig | None = None, overwrite: bool = False
) -> SessionFiles:
    """Logs, track features and causes in a new folder; the same configuration, the same bytes."""
    config = config or ListeningConfig()
    tracks = design_tracks(config)
    chances = _seeds(config)[1:]
    with new_folder(folder, overwrite) as made:
        for name in (LOGS, TRACKS, CAUSES):
            (made / name).mkdir()
        each = -(-config.tracks // TRACK_FILES)
        for part in range(TRACK_FILES):
            _write(
                tracks.table[part * each : (part + 1) * each], made / TRACKS / f"tf_{part:012}.csv"
            )
        for log, chance in enumerate(chances):
            made_log = make_log(config, tracks, log, np.random.default_rng(chance))
            words = np.array([cause.word for cause in Cause])[made_log.causes]
            truth = made_log.table.select([SESSION, POSITION]).append_column(CAUSE, pa.array(words))
            _write(made_log.table, made / LOGS / log_name(log))
            _write(truth, made / CAUSES / log_name(log))
        document = {"whence": whence.__version__, LISTENING: asdict(config)}
        write_json(made / MANIFEST, document)
    return find_files(folder)


def refuse_other_settings(files: SessionFiles, config: ListeningConfig) -> None:
    """Raise if the manifest beside the files says that they were made with others."""
    manifest = files.tracks[0].parent.parent / MANIFEST
    made_with = read_json(manifest).get(LISTENING) if manifest.is_file() else None
    if not isinstance(made_with, dict):
        return
    for name, value in asdict(config).items():
        if made_with.get(name, value) != value:
            raise InputError(
                f"{manifest}: these sessions were made with {name}={made_with[name]}, not {value}; "
                "say the settings that write_sessions was given."
            )


def design_tracks(config: ListeningConfig) -> MadeTracks:
    """The tracks of sessions with these settings, numbered as in their files."""
    return make_tracks(config, np.random.default_rng(_seeds(config)[0]))


def _seeds(config: ListeningConfig) -> list[np.random.SeedSequence]:
    """Of the tracks, and of every log."""
    return np.random.SeedSequence(config.seed).spawn(1 + config.logs)


def log_name(log: int) -> str:
    """As the challenge names its logs: the number within the day, and the day."""
    day = str(day_of(log)[1]).replace("-", "")
    return f"log_{log % LOGS_OF_A_DAY}_{day}_000000000000.csv"


def _write(table: pa.Table, path: Path) -> None:
    """Without quotes, which the challenge's files have none of."""
    with path.open("wb") as file:
        file.write((",".join(table.column_names) + "\n").encode())
        pa_csv.write_csv(
            table, file, pa_csv.WriteOptions(include_header=False, quoting_style="none")
        )
