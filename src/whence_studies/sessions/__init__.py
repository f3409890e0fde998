"""Listening sessions: predict the skips of the second half from the first.

The files are those of the Spotify Sequential Skip Prediction Challenge (Brost, Mehrotra & Jehan
2019), as Afchar & Hennequin (2020) use them. `write_sessions` writes synthetic sessions in the same
format, with the true cause of every skip. Logs are streamed: whatever the size of a file, one block
is in memory at a time.
"""

from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.logs import SLOTS, Sessions, read_sessions
from whence_studies.sessions.schema import (
    GROUP_OF,
    GROUPS,
    KNOWN_SPANS,
    SUBSETS,
    UPCOMING_SPANS,
    Cause,
)
from whence_studies.sessions.session_batches import (
    ABSENT,
    BATCH,
    NO_CAUSE,
    SessionBatch,
    batches,
    concat_batches,
    halve_sessions,
)
from whence_studies.sessions.session_files import (
    SessionFiles,
    SessionSplit,
    find_files,
    split_files,
)
from whence_studies.sessions.skip_accuracy import (
    BASELINES,
    COLUMNS,
    SkipScores,
    concat_scores,
    score_skips,
)
from whence_studies.sessions.synthetic_sessions import write_sessions
from whence_studies.sessions.tracks import Tracks, read_tracks

__all__ = [
    "ABSENT",
    "BASELINES",
    "BATCH",
    "COLUMNS",
    "GROUPS",
    "GROUP_OF",
    "KNOWN_SPANS",
    "NO_CAUSE",
    "SLOTS",
    "SUBSETS",
    "UPCOMING_SPANS",
    "Cause",
    "ListeningConfig",
    "SessionBatch",
    "SessionFiles",
    "SessionSplit",
    "Sessions",
    "SkipScores",
    "Tracks",
    "batches",
    "concat_batches",
    "concat_scores",
    "find_files",
    "halve_sessions",
    "read_sessions",
    "read_tracks",
    "score_skips",
    "split_files",
    "write_sessions",
]
