"""Charts of skips and selections, as in Figures 6, 8 and 11 of Afchar & Hennequin (2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
import numpy as np
import numpy.typing as npt

from whence.errors import InputError
from whence.measure import Measure
from whence.report.charts import AGAINST, FOR, NEUTRAL, inline, styled
from whence_studies.charts.printed_tables import by_table
from whence_studies.records import Record
from whence_studies.sessions.schema import Cause
from whence_studies.sessions.session_batches import SessionBatch
from whence_studies.skips.networks import EVIDENCE, EXPERTS
from whence_studies.tables.skip_columns import FIRST, MEAN_SHARE
from whence_studies.tables.skips import PERCENT

DARK: Final = "#3a434c"
BAR_HEIGHT, WIDTH = 22, 230

ChartRow = dict[str, Any]


def share_row(
    of: str, what: str, name: str, value: float, interval: tuple[float, float]
) -> ChartRow:
    """Return the data of one bar: its panel row, its panel column, its name and value."""
    low, high = interval
    return {"of": of, "what": what, "name": name, "value": value, "low": low, "high": high}


def share_chart(rows: list[ChartRow]) -> alt.FacetChart:
    """Draw bars with intervals in panels, by `of` downwards and by `what` across."""
    whose, kinds, names = (
        list(dict.fromkeys(row[field] for row in rows)) for field in ("of", "what", "name")
    )
    base = alt.Chart(inline(rows), height=BAR_HEIGHT * len(names), width=WIDTH).encode(
        y=alt.Y("name:N", title=None, sort=None),
        tooltip=[
            "name:N",
            *(alt.Tooltip(f"{one}:Q", format=".3f") for one in ("value", "low", "high")),
        ],
    )
    bar: alt.Chart = base.mark_bar(color=NEUTRAL, opacity=0.75).encode(
        x=alt.X("value:Q", title=None, axis=alt.Axis(format="%", tickCount=4))
    )
    span: alt.Chart = base.mark_rule(color=DARK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    layers: alt.LayerChart = alt.LayerChart(layer=[bar, span])
    across = alt.Column("what:N", title=None, sort=kinds)
    if whose == [""]:
        return styled(layers.facet(column=across))
    down = alt.Row("of:N", title=None, sort=whose, header=alt.Header(labelOrient="top"))
    return styled(layers.facet(column=across, row=down))


SLOT: Final = 62
"""Width of a track."""
COLOURS: Final = (NEUTRAL, FOR, "#d9a441", AGAINST, "#b9c0c7")
SKIPPED, PLAYED = "skipped", "played"
HAPPENED, PREDICTED, CAUSE = "happened", "predicted", "true cause"
FIRST_HALF: Final = "first half: heard"
MAXIMUM, MEAN = "most selected, share of tracks", "mean share of the attribution"
SHARES: Final = {FIRST: MAXIMUM, MEAN_SHARE: MEAN}
"""Panel titles by the prefix of a study's columns."""


def strip_chart(
    batch: SessionBatch,
    selected: npt.NDArray[np.float32],
    predicted: npt.NDArray[np.bool_],
    case: int,
) -> alt.ConcatChart:
    """Draw one session track by track, as in Figure 11 of Afchar & Hennequin (2020).

    Shows what happened, the predictions for the second half, the true causes if known, and the
    selection `selected` `[B, slots, H]` of each group of experts in `EVIDENCE`.
    """
    if not 0 <= case < len(batch):
        raise InputError(
            f"There is no session {case}. The batch has the sessions 0 to {len(batch) - 1}."
        )
    known, upcoming = (int(there[case].sum()) for there in (batch.known_mask, batch.upcoming_mask))
    tracks = range(1, known + upcoming + 1)
    panels = [
        _skips(_skip_rows(batch, predicted, case, known, upcoming), _words(batch, case), tracks),
        _attributions(_attribution_rows(selected[case, :upcoming], known), tracks),
    ]
    return styled(alt.ConcatChart(concat=panels, columns=1, spacing=4))


def selection_chart(maximum: Mapping[str, Measure], mean: Mapping[str, Measure]) -> alt.FacetChart:
    """Draw two bars per expert, as in Figure 8: how often it comes first, and its mean share."""
    rows = [
        _bar("", what, name, one.value, one.interval)
        for what, measures in ((MAXIMUM, maximum), (MEAN, mean))
        for name, one in measures.items()
    ]
    return share_chart(rows)


def selection_charts(records: Sequence[Record]) -> dict[str, alt.FacetChart]:
    """Draw the same from the records of a study, one chart per table and one row per network."""
    drawn = {title: _bars(own) for title, own in by_table(records).items()}
    return {title: share_chart(rows) for title, rows in drawn.items() if rows}


def _bars(records: Sequence[Record]) -> list[ChartRow]:
    rows = []
    for record in records:
        begins = next((one for one in SHARES if record.column.startswith(one)), None)
        if begins is not None and record.value is not None and record.interval is not None:
            what, expert = SHARES[begins], record.column.removeprefix(begins)
            value, low, high = (one / PERCENT for one in (record.value, *record.interval))
            rows.append(_bar(record.row, what, expert, value, (low, high)))
    return rows


def _bar(
    network: str, what: str, expert: str, value: float, interval: tuple[float, float]
) -> ChartRow:
    sees = ", ".join(EXPERTS.subsets[EXPERTS.index(expert)].groups[1:])
    whole = expert == EXPERTS.names[-1]
    name = f"{expert}: {'everything' if whole else sees}"
    return share_row(network, what, name, value, interval)


def _skip_rows(
    batch: SessionBatch, predicted: npt.NDArray[np.bool_], case: int, known: int, upcoming: int
) -> list[ChartRow]:
    """Return whether each track was skipped, and the predictions for the second half."""
    happened = [*batch.known_skipped[case, :known], *batch.skipped[case, :upcoming]]
    said = dict(enumerate(predicted[case, :upcoming], start=known))
    rows = [(place, HAPPENED, skipped) for place, skipped in enumerate(happened)]
    rows += [(place, PREDICTED, skipped) for place, skipped in said.items()]
    return [
        {"track": place + 1, "row": row, "what": SKIPPED if skipped else PLAYED}
        for place, row, skipped in rows
    ]


def _words(batch: SessionBatch, case: int) -> list[ChartRow]:
    """Return the true causes, and the label of the first half."""
    known, upcoming = (int(there[case].sum()) for there in (batch.known_mask, batch.upcoming_mask))
    rows: list[ChartRow] = [{"track": 1 + known // 2, "row": PREDICTED, "word": FIRST_HALF}]
    if batch.causes is not None:
        rows += [
            {"track": known + place + 1, "row": CAUSE, "word": Cause(int(cause)).word}
            for place, cause in enumerate(batch.causes[case, :upcoming])
        ]
    return rows


def _attribution_rows(selected: npt.NDArray[np.float32], known: int) -> list[ChartRow]:
    """Return the selection of each group of experts, track by track."""
    return [
        {
            "track": known + place + 1,
            "evidence": evidence,
            "order": order,
            "attribution": float(row[[EXPERTS.index(name) for name in names]].sum()),
        }
        for place, row in enumerate(selected)
        for order, (evidence, names) in enumerate(EVIDENCE.items())
    ]


def _skips(marks: list[ChartRow], words: list[ChartRow], tracks: range) -> alt.LayerChart:
    rows = [HAPPENED, PREDICTED, *([CAUSE] if len(words) > 1 else [])]
    up = alt.Y("row:N", title=None, sort=rows, axis=alt.Axis(ticks=False, domain=False))
    fill = alt.Fill(
        "what:N",
        title=None,
        scale=alt.Scale(domain=[SKIPPED, PLAYED], range=[DARK, "#ffffff"]),
        legend=alt.Legend(symbolStrokeColor=DARK),
    )
    points: alt.Chart = (
        alt.Chart(inline(marks))
        .mark_point(size=170, strokeWidth=2, color=DARK, opacity=1)
        .encode(x=_across(tracks, titled=False), y=up, fill=fill, tooltip=["track:O", "what:N"])
    )
    texts: alt.Chart = (
        alt.Chart(inline(words))
        .mark_text(fontSize=10, color=DARK)
        .encode(x=_across(tracks, titled=False), y=up, text="word:N")
    )
    return alt.LayerChart(layer=[points, texts], width=SLOT * len(tracks), height=24 * len(rows))


def _attributions(rows: list[ChartRow], tracks: range) -> alt.Chart:
    colour = alt.Color(
        "evidence:N",
        title=None,
        scale=alt.Scale(domain=list(EVIDENCE), range=list(COLOURS)),
    )
    bars: alt.Chart = (
        alt.Chart(inline(rows), width=SLOT * len(tracks), height=130)
        .mark_bar(size=SLOT - 10)
        .encode(
            x=_across(tracks, titled=True),
            y=alt.Y(
                "attribution:Q",
                title="attribution to",
                axis=alt.Axis(tickCount=3),
                scale=alt.Scale(domainMin=0),
            ),
            color=colour,
            order="order:Q",
            tooltip=["track:O", "evidence:N", alt.Tooltip("attribution:Q", format=".2f")],
        )
    )
    return bars


def _across(tracks: range, titled: bool) -> alt.X:
    axis = alt.Axis(labelAngle=0, ticks=False, title="track of the session") if titled else None
    return alt.X("track:O", axis=axis, scale=alt.Scale(domain=list(tracks)))
