"""An overview of all studies: what each re-runs, its source, and how it came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from whence.errors import InputError
from whence_studies.charts.claim_tables import CLAIMS, claims_by_title
from whence_studies.claims import FAILS, HOLDS, NOT_COMPARABLE, PRINT_OUTSIDE, UNDECIDED
from whence_studies.records import Record, find_records, read_records, records_file
from whence_studies.results import AGREES, HIGHER, LOWER, rows_done
from whence_studies.study import Study
from whence_studies.tables.dataset_statistics import DIFFERS, EQUAL

INTRODUCTION = """\
# Results

Each study re-runs a published table or figure, or asks a new question. Every page holds its tables,
figures, claims and protocols. The records behind a page are in the JSON file of the same name.
[The guide](../docs/studies.md) says how to run a study, and
[questions and answers](../docs/questions.md) sums up what they found.

- **published values**: how many agree with the value measured here (the 95 % interval contains
  them), and how many are lower or higher here.
- **claims**: how many hold, do not hold, or stay undecided at 95 % confidence, over all datasets
  and models. *Transferred* claims are published for other models or data than ours and are counted
  apart: their verdicts are not about the paper. *Print outside the band*: the published value is
  not in the band that the paper names for it, such as 0.71 called moderate. *Not comparable*: the
  variant is too far from the published values for a verdict.
- **rows done**: how many trainings or table rows have all their values. The others are not run
  yet, or need data that cannot be shipped.

| study | question | source | published values | claims | rows done |
|---|---|---|---|---|---:|
"""

NONE = "–"


def progress_text(study: Study, given: Path | None, here: Path) -> str:
    """Return how many rows of a study are done, or why that is not known."""
    folder = find_records(study.id, given, here)
    if not records_file(study.id, folder).exists():
        return "none"
    try:
        return "{} of {}".format(*rows_done(study, read_records(study.id, folder)))
    except InputError:
        return "unreadable"


def overview(studies: Sequence[Study], folder: Path) -> str:
    """Return the Markdown overview of the studies that have records in this folder."""
    lines = []
    for study in studies:
        if records_file(study.id, folder).exists():
            records = read_records(study.id, folder)
            done = "{} of {}".format(*rows_done(study, records))
            cells = (
                f"[{study.id}]({study.id}.md)",
                study.title,
                study.source,
                _published_text(records),
                claims_text(study, records),
                done,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return INTRODUCTION + "\n".join(lines) + "\n"


def _published_text(records: Sequence[Record]) -> str:
    values = [one for one in records if one.value is not None and one.published is not None]
    found = Counter(record.verdict.partition(":")[0] for record in values)
    named = {
        "agree": found[AGREES] + found[EQUAL],
        "lower here": found[LOWER],
        "higher here": found[HIGHER],
        "differ": found[DIFFERS],
    }
    return _counts(named)


def claims_text(study: Study, records: Sequence[Record]) -> str:
    """Return how many claims have each verdict, transferred ones apart."""
    parts = []
    for title, own in claims_by_title(study, records).items():
        found = Counter(record.verdict for record in own)
        counts = _counts(
            {
                "hold": found[HOLDS],
                "do not hold": found[FAILS],
                "undecided": found[UNDECIDED],
                PRINT_OUTSIDE: found[PRINT_OUTSIDE],
                NOT_COMPARABLE: found[NOT_COMPARABLE],
            }
        )
        parts.append(counts if title == CLAIMS else f"transferred: {counts}")
    return "; ".join(parts) or NONE


def _counts(named: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in named.items() if count) or NONE
