"""Sessions: listening logs, of whose second half skips are to be predicted from the first.

The files are those of the Spotify Sequential Skip Prediction Challenge (Brost, Mehrotra & Jehan
2019), as Afchar & Hennequin (2020) use them; sessions can be made in the same form, with the true
cause of every skip. Logs are streamed: of a file of any size one block is in memory at a time.
"""

from whence_studies.sessions.causes import GROUP_OF, Cause
from whence_studies.sessions.columns import ASKED_SPANS, GROUPS, KNOWN_SPANS, SUBSETS
from whence_studies.sessions.halves import ABSENT, NO_CAUSE, Halves, cut_in_half
from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.logs import SLOTS, Sessions, read_sessions
from whence_studies.sessions.session_batches import BATCH, batches
from whence_studies.sessions.session_files import Parts, SessionFiles, find_files, split_files
from whence_studies.sessions.skip_accuracy import (
    BASELINES,
    COLUMNS,
    SkipScores,
    join_scores,
    score_skips,
)
from whence_studies.sessions.tracks import Tracks, read_tracks
from whence_studies.sessions.writing import write_sessions

__all__ = [
    "ABSENT",
    "ASKED_SPANS",
    "BASELINES",
    "BATCH",
    "COLUMNS",
    "GROUPS",
    "GROUP_OF",
    "KNOWN_SPANS",
    "NO_CAUSE",
    "SLOTS",
    "SUBSETS",
    "Cause",
    "Halves",
    "ListeningConfig",
    "Parts",
    "SessionFiles",
    "Sessions",
    "SkipScores",
    "Tracks",
    "batches",
    "cut_in_half",
    "find_files",
    "join_scores",
    "read_sessions",
    "read_tracks",
    "score_skips",
    "split_files",
    "write_sessions",
]
