"""What became of every claim of the papers, in one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whence_studies.charts.reading_tables import dependence
from whence_studies.claims import FAILS, HOLDS, NOT_COMPARABLE, PRINT_OUTSIDE, UNDECIDED
from whence_studies.comparable import depends
from whence_studies.declared_claims import Claim
from whence_studies.records import NOT_RUN, Record, read_records, records_file
from whence_studies.study import Study

PAPERS: Final = {
    "Baumhauer": "Explaining sequential transformer recommenders (Baumhauer 2021)",
    "Jain": "How reliable the attention of recommenders is (Jain 2019)",
    "Afchar": "Recommenders interpretable by design (Afchar & Hennequin 2020)",
}
"""By the author's name in the sources of claims."""
DEPENDS: Final = "depends"
NOT_MEASURABLE: Final = "not measurable here"
OUTCOMES: Final = (
    HOLDS,
    FAILS,
    DEPENDS,
    UNDECIDED,
    PRINT_OUTSIDE,
    NOT_COMPARABLE,
    NOT_RUN,
    NOT_MEASURABLE,
)
PLURAL: Final = {HOLDS: "hold", FAILS: "do not hold", DEPENDS: "depend"}
JUDGED: Final = (HOLDS, FAILS, UNDECIDED, PRINT_OUTSIDE)

INTRODUCTION: Final = """\
# The papers, claim by claim

Written by `python docs/examples/papers.py` from the committed records. Each line is one claim and
what we find, as a comparison with a 95 % interval on every dataset and model that the claim is
about. A link leads to the page with the figures, the comparison and the thresholds. *Depends*: it
holds on some of them and does not hold on others. *Print outside the band*: the published value
itself is not in the band that the claim names, so the band judges nothing. *Depends on
initialisation*: the paper does not state its initial weights, and the claim holds with some
comparable ones and not with others. *Not comparable*: the trained models do not come near the
published recall or entropy of attention. *Transferred*: the paper makes the claim about other
models or data than those measured here, so the verdict is not about the paper.
"""


@dataclass(frozen=True)
class ClaimLine:
    """One claim of a study, and its records."""

    study: Study
    claim: Claim
    records: Sequence[Record]

    @property
    def outcome(self) -> str:
        """One word for all datasets and models."""
        if self.claim.readings_of and any(map(depends, self._by_place())):
            return dependence(self.study)
        found = {one.verdict for one in self.records} & set(JUDGED)
        if not found:
            every = {one.verdict for one in self.records}
            return next((one for one in (NOT_RUN, NOT_COMPARABLE) if one in every), NOT_MEASURABLE)
        if {HOLDS, FAILS} <= found:
            return DEPENDS
        return UNDECIDED if UNDECIDED in found else next(one for one in JUDGED if one in found)

    def _by_place(self) -> list[list[str]]:
        """The verdicts of each dataset and model, one for each reading."""
        places: dict[tuple[str, str | None], list[str]] = {}
        for one in self.records:
            places.setdefault((one.dataset, one.model), []).append(one.verdict)
        return list(places.values())

    @property
    def counts(self) -> str:
        """How often it has each verdict."""
        verdicts = Counter(
            one.verdict if one.verdict in (*JUDGED, NOT_COMPARABLE, NOT_RUN) else NOT_MEASURABLE
            for one in self.records
        )
        named = [f"{one} {verdicts[one]}×" for one in OUTCOMES if verdicts[one]]
        return ", ".join(named) if len(self.records) > 1 else "".join(verdicts)

    @property
    def seeds(self) -> str:
        """Over how many seeds, from the fewest to the most."""
        counts = sorted({len(one.seeds) for one in self.records if one.verdict in JUDGED})
        return "–".join(dict.fromkeys(str(one) for one in (*counts[:1], *counts[-1:])))


def papers_page(studies: Sequence[Study], folder: Path) -> str:
    """Return the Markdown page of all papers, from the records in this folder."""
    lines = list(_lines(studies, folder))
    parts = [INTRODUCTION]
    for author, title in PAPERS.items():
        own = [one for one in lines if author in one.claim.source]
        parts.append(f"## {title}\n")
        for heading, some in (
            ("", [one for one in own if not one.claim.transferred_from]),
            ("### Transferred\n", [one for one in own if one.claim.transferred_from]),
        ):
            if some:
                parts += [part for part in (heading, _summary(some), _table(some)) if part]
    return "\n".join(parts)


def _lines(studies: Sequence[Study], folder: Path) -> Iterator[ClaimLine]:
    for study in studies:
        if not records_file(study.id, folder).exists():
            continue
        records = read_records(study.id, folder)
        by_stem: dict[str, list[Claim]] = {}
        for claim in study.claims:
            by_stem.setdefault(claim.stem, []).append(claim)
        for claims in by_stem.values():
            texts = {claim.text for claim in claims}
            own = [one for one in records if one.row in texts]
            if own:
                yield ClaimLine(study, claims[0], own)


def _summary(lines: Sequence[ClaimLine]) -> str:
    found = Counter(one.outcome for one in lines)
    outcomes = dict.fromkeys((*OUTCOMES, *found))
    counts = ", ".join(f"{found[one]} {PLURAL.get(one, one)}" for one in outcomes if found[one])
    return f"{len(lines)} claims: {counts}.\n"


def _table(lines: Sequence[ClaimLine]) -> str:
    rows = ["| claim | source | finding | by dataset and model | seeds |", "|---|---|---|---|---:|"]
    for one in lines:
        source = one.claim.source
        if one.claim.transferred_from:
            source = f"{source}, of {one.claim.transferred_from}"
        link = f"[{one.outcome}](../results/{one.study.id}.md#claims)"
        rows.append(f"| {one.claim.stem} | {source} | {link} | {one.counts} | {one.seeds or '–'} |")
    return "\n".join(rows) + "\n"
