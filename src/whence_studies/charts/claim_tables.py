"""The tables of claims: verdicts, those on transferred claims apart, and what is compared."""

from __future__ import annotations

from collections.abc import Sequence

from whence_studies.charts.cells import ABSENT, StudyTable, absences, model_headings
from whence_studies.claims import PRINT_OUTSIDE
from whence_studies.declared_claims import Claim
from whence_studies.records import Record
from whence_studies.study import Study

CLAIMS = "Claims"
TRANSFERRED = "Transferred claims"
OTHER_SETTING = (
    "Their sources make these claims about other models or data, named below. The verdicts are "
    "about ours, not about the sources."
)
CHANGES = "At half, at double: the verdict if our own limit or margin were half or twice as large."
JUDGED = "How each claim is judged"


def claims_by_title(study: Study, records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of claims by the title of their table: transferred ones apart."""
    titles = {
        claim.text: TRANSFERRED if claim.transferred_from else CLAIMS for claim in study.claims
    }
    found = {
        title: [one for one in records if titles.get(one.row) == title]
        for title in (CLAIMS, TRANSFERRED)
    }
    return {title: own for title, own in found.items() if own}


def claim_tables(study: Study, records: Sequence[Record]) -> list[StudyTable]:
    """The verdicts, and then what each claim compares."""
    verdicts = _claims_of_tables if study.tabulated else _claims
    headings: tuple[str, ...] = ("claim", "source", "comparison")
    judged: tuple[tuple[str, ...], ...] = tuple(
        (claim.stem, _source(claim), _comparison(study, claim, records)) for claim in study.claims
    )
    if any(claim.own_thresholds for claim in study.claims):
        headings = (*headings, "our thresholds")
        ours = (_thresholds(claim, records) for claim in study.claims)
        judged = tuple((*row, own) for row, own in zip(judged, ours, strict=True))
    return [
        *(verdicts(study, title, own) for title, own in claims_by_title(study, records).items()),
        # All readings of a configuration are judged alike.
        StudyTable(JUDGED, headings, tuple(dict.fromkeys(judged))),
    ]


def _source(claim: Claim) -> str:
    """Return where a claim is made, and about what if that is not what is judged."""
    return (
        f"{claim.source}, of {claim.transferred_from}" if claim.transferred_from else claim.source
    )


def _thresholds(claim: Claim, records: Sequence[Record]) -> str:
    """Return which thresholds of a claim are ours, and how many verdicts depend on their size."""
    if not claim.own_thresholds:
        return ""
    sizes = {
        "limit": f"{claim.limit:g}" + (f" (from {claim.limit_from:g})" if claim.limit_from else ""),
        "margin": f"{claim.margin:g}",
    }
    own = ", ".join(f"{name} {sizes[name]}" for name in claim.own_thresholds)
    judged = [one for one in records if one.row == claim.text and one.at_half is not None]
    if not judged:
        return own
    half = sum(one.at_half != one.verdict for one in judged)
    double = sum(one.at_double != one.verdict for one in judged)
    return f"{own}; verdicts that change: {half} of {len(judged)} at half, {double} at double"


def _claims(study: Study, title: str, records: Sequence[Record]) -> StudyTable:
    """Claims down, datasets across."""
    found = {(record.row, record.dataset, record.model): record for record in records}
    rows = tuple(
        (
            _with_column(claim),
            *((shown_model,) if len(study.models) > 1 else ()),
            *(
                _verdict(found.get((claim.text, data.data, model.name)))
                for data in study.datasets.values()
            ),
        )
        for claim in study.claims
        for shown_model, model in study.models.items()
        if any((claim.text, data.data, model.name) in found for data in study.datasets.values())
    )
    headings = ("claim", *model_headings(study)[:-1], *study.datasets)
    return StudyTable(title, headings, rows, notes=_claim_notes(study, title, records))


def _claims_of_tables(study: Study, title: str, records: Sequence[Record]) -> StudyTable:
    """One claim below the other, each with its dataset."""
    by_text = {claim.text: claim for claim in study.claims}
    names = {dataset.data: name for name, dataset in study.datasets.items()}
    rows = tuple(
        (_with_column(by_text[one.row]), names.get(one.dataset, one.dataset), _verdict(one))
        for one in records
    )
    headings = ("claim", "dataset", "verdict")
    return StudyTable(title, headings, rows, notes=_claim_notes(study, title, records))


def _claim_notes(study: Study, title: str, records: Sequence[Record]) -> tuple[str, ...]:
    """Return what a reader must know of these verdicts."""
    return (
        *((OTHER_SETTING,) if title == TRANSFERRED else ()),
        *((CHANGES,) if any(map(_changes, records)) else ()),
        *_prints_outside(study, records),
        *absences(study, records),
    )


def _prints_outside(study: Study, records: Sequence[Record]) -> tuple[str, ...]:
    """Return the published values that are not in the band which their claim names."""
    datasets = {dataset.data: name for name, dataset in study.datasets.items()}
    models = {model.name: name for name, model in study.models.items()}
    claims = {claim.text: claim for claim in study.claims}
    named = []
    for record in records:
        if record.verdict == PRINT_OUTSIDE:
            claim = claims[record.row]
            dataset, model = datasets[record.dataset], models[record.model or ""]
            printed = study.printed_side(claim, dataset, model)
            named.append(f"{printed} is not {claim.expect} ({model}, {dataset})")
    explained = f"{PRINT_OUTSIDE.capitalize()}: the published value fails the claim by itself"
    return (f"{explained}. {'; '.join(named)}.",) if named else ()


def _with_column(claim: Claim) -> str:
    return f"{claim.text} ({claim.column})" if claim.column else claim.text


def _comparison(study: Study, claim: Claim, records: Sequence[Record]) -> str:
    """Return what is compared; if this differs, with the models and datasets of each way."""
    models = {model.name: name for name, model in study.models.items()}
    data = {dataset.data: name for name, dataset in study.datasets.items()}
    own = [record for record in records if record.row == claim.text]
    ways: dict[str, list[str]] = {}
    for record in [one for one in own if one.value is not None] or own:
        dataset = data.get(record.dataset, record.dataset)
        where = f"{models[record.model]} on {dataset}" if record.model else dataset
        ways.setdefault(_without_variant(claim, record.protocol), []).append(where)
    return "; ".join(
        way if len(ways) == 1 else f"{', '.join(of)}: {way}" for way, of in ways.items()
    )


def _without_variant(claim: Claim, protocol: str) -> str:
    """Return a protocol without the variant, if the claim is judged on several readings."""
    if claim.readings_of is None:
        return protocol
    variant = claim.of.variant
    return protocol.replace(f"{variant}, ", "").replace(f", {variant}", "")


def _verdict(record: Record | None) -> str:
    if record is None:
        return ""
    if record.value is None or record.interval is None:
        return ABSENT if not record.seeds else record.verdict
    numbers = "{:.4f} [{:.4f}, {:.4f}]".format(record.value, *record.interval)
    said = [f"{record.verdict}: {numbers.replace('-', '−')}", *_changes(record)]
    return "; ".join(said)


def _changes(record: Record) -> list[str]:
    """Return the verdicts that other thresholds of ours would give, where they differ."""
    others = {"at half": record.at_half, "at double": record.at_double}
    return [f"{at}: {one}" for at, one in others.items() if one not in (None, record.verdict)]
