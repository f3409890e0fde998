"""Published tables and figures, run again: our number beside the printed one."""

from collections.abc import Callable

from whence.studies import dataset_statistics
from whence.studies.records import Record

STUDIES: dict[str, tuple[str, Callable[[], list[Record]]]] = {
    dataset_statistics.STUDY: (
        "Sizes of the datasets: Table 3.1 (Baumhauer 2021) and Table 3.1 (Jain 2019)",
        dataset_statistics.run,
    ),
}
"""By id: what it is, and how it is run."""
