"""A study for people: the terminal, Markdown with figures, and one HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group

import whence
from whence.files import new_file
from whence.terminal import captioned, plain_table
from whence_studies.charts.cells import StudyTable
from whence_studies.charts.study_tables import study_tables
from whence_studies.records import Record
from whence_studies.study import Study

if TYPE_CHECKING:
    import altair as alt

DRAWING = ("altair", "vl_convert", "jinja2")
"""What charts and pages need; a machine that only trains may not have these."""
EMBED = "window.vegaEmbed = vegaEmbed;"
"""What the page needs of Vega."""
MOST_FIGURES = 4
"""How many charts the Markdown shows if the study does not choose them."""
WIDEST = 12
"""The most columns of a table that is shown in a terminal."""
SYMBOLS = {
    **{"ρ": "rho", "μ": "mu", "α": "alpha", "φ": "phi", "∇": "gradient", "*": "star", "′": "prime"},
    **{"₀": "0", "₁": "1", "₂": "2"},
}


@dataclass(frozen=True)
class StudyDocument:
    """What a page about a study says; legends and protocols stand in it once."""

    title: str
    source: str
    origins: list[tuple[str, str]]
    """The commands that made the records, each with the machine it ran on."""
    remarks: tuple[str, ...]
    """What a reader must know before the figures."""
    legends: tuple[str, ...]
    tables: tuple[StudyTable, ...]
    """The notes of each table refer to protocols by number."""
    protocols: tuple[str, ...]


def study_document(study: Study, records: Sequence[Record]) -> StudyDocument:
    """Collect the tables of a study, and number the protocols that they share."""
    tables = study_tables(study, records)
    protocols = list(dict.fromkeys(one.protocol for table in tables for one in table.measured))
    numbered = tuple(
        replace(
            table,
            notes=(
                *table.notes,
                *(
                    f"{one.sizes}; protocol {protocols.index(one.protocol) + 1}."
                    for one in table.measured
                ),
            ),
        )
        for table in tables
    )
    return StudyDocument(
        study.title,
        study.source,
        list(dict.fromkeys((record.command, record.machine) for record in records)),
        study.notes,
        _without_parts(table.legend for table in tables if table.legend),
        numbered,
        tuple(protocols),
    )


def _without_parts(legends: Iterable[str]) -> tuple[str, ...]:
    """Return each legend once, without those that another one contains."""
    every = tuple(dict.fromkeys(legends))
    return tuple(one for one in every if not any(one in other for other in every if other != one))


def as_markdown(
    study: Study, records: Sequence[Record], figures: Mapping[str, str] | None = None
) -> str:
    """Return the page in Markdown, with the given figures: by the title of a table, the file."""
    page = study_document(study, records)
    made = ", ".join(f"`{command}` on {machine}" for command, machine in page.origins)
    lines = [f"# {page.title}", "", f"Source: {page.source}. Made by {made}.", ""]
    if page.remarks:
        lines += [*(f"- {remark}" for remark in page.remarks), ""]
    if page.legends:
        lines += [" ".join(page.legends), ""]
    for table in page.tables:
        lines += [f"## {table.title}", ""] if table.title else []
        if figures and table.title in figures:
            lines += [f"![{_in_brackets(table.title)}]({figures[table.title]})", ""]
        left = len(table.headings) - table.numbers
        lines += [
            _line(table.headings),
            "|" + "---|" * left + "---:|" * table.numbers,
            *map(_line, table.rows),
            "",
        ]
        for note in table.notes:
            lines += [note, ""]
    if page.protocols:
        lines += ["## Protocols", ""]
        lines += [f"{number}. {text}." for number, text in enumerate(page.protocols, start=1)]
        lines += [""]
    return "\n".join(lines[:-1]) + "\n"


def terminal_tables(study: Study, records: Sequence[Record]) -> Iterable[Group | str]:
    """Yield what a terminal shows."""
    page = study_document(study, records)
    for remark in page.remarks:
        yield f"{remark}\n"
    if page.legends:
        yield " ".join(page.legends) + "\n"
    for table in page.tables:
        if len(table.headings) > WIDEST:
            yield (
                f"{table.title}: {len(table.headings)} columns do not fit a terminal. See "
                f"{study.id}.md or {study.id}.html ('whence study show {study.name} "
                "--write' writes them), or use --json.\n"
            )
            continue
        shown = plain_table(table.title or study.title, *table.headings, numbers=table.numbers)
        for row in table.rows:
            shown.add_row(*row)
        yield captioned(shown, "\n".join(table.notes))
    for number, text in enumerate(page.protocols, start=1):
        yield f"Protocol {number}: {text}.\n"


def can_draw() -> bool:
    """Return whether the packages for charts and pages are installed."""
    return all(find_spec(name) is not None for name in DRAWING)


def write_study(study: Study, records: Sequence[Record], folder: Path) -> list[Path]:
    """Write `<id>.md` with its figures as SVG, and `<id>.html` with all charts.

    Without the drawing packages, write the Markdown alone.
    """
    contents = page_files(study, records)
    for name, content in contents.items():
        with new_file(folder / name) as partial:
            partial.write_bytes(content)
    return [folder / name for name in contents]


def page_files(study: Study, records: Sequence[Record], html: bool = True) -> dict[str, bytes]:
    """Return the files of `write_study` by name."""
    if not can_draw():
        return {f"{study.id}.md": as_markdown(study, records).encode()}
    from whence.report.charts import to_svg
    from whence_studies.charts.study_charts import study_charts

    charts = study_charts(study, records)
    figures = figure_files(study, list(charts))
    drawn = charts if html else figures
    pictures = {title: to_svg(charts[title], f"{study.title}: {title}") for title in drawn}
    contents = {f"{study.id}.md": as_markdown(study, records, figures).encode()}
    contents |= {name: pictures[title].encode() for title, name in figures.items()}
    if html:
        contents[f"{study.id}.html"] = _html(study, records, charts, pictures).encode()
    return contents


def figure_files(study: Study, titles: Sequence[str]) -> dict[str, str]:
    """Return the file of each chart that the Markdown shows, by the chart's title."""
    chosen = {title: short for short, title in study.figures.items() if title in titles}
    chosen = chosen if study.figures else {title: slug(title) for title in titles[:MOST_FIGURES]}
    return {title: f"{study.id}-{short}.svg" for title, short in chosen.items()}


def slug(title: str) -> str:
    """Return a title as part of a file name; the papers' symbols are spelt out."""
    spelt = "".join(f" {SYMBOLS[one]} " if one in SYMBOLS else one for one in title.lower())
    return re.sub(r"[^a-z0-9]+", "-", spelt).strip("-")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _in_brackets(title: str) -> str:
    return title.replace("[", "(").replace("]", ")")


def _html(
    study: Study,
    records: Sequence[Record],
    charts: Mapping[str, alt.FacetChart],
    pictures: Mapping[str, str],
) -> str:
    """Return tables and charts in one file that loads no other."""
    from markupsafe import Markup

    from whence.report.charts import specification
    from whence.report.pages import render

    drawn = {
        title: {
            "picture": Markup(pictures[title]),
            "definition": Markup(_in_script(specification(chart, f"{study.title}: {title}"))),
        }
        for title, chart in charts.items()
    }
    return render(
        "study.html.j2",
        package="whence_studies",
        title=study.title,
        page=study_document(study, records),
        charts=drawn,
        library=Markup(_vega_library() if drawn else ""),
        version=whence.__version__,
        name=study.name,
    )


@cache
def _vega_library() -> str:
    """Return the script that draws charts; bundling it takes a second."""
    import vl_convert

    return str(vl_convert.javascript_bundle(EMBED))


def _in_script(document: object) -> str:
    """Return JSON that cannot end the script element it stands in."""
    return json.dumps(document, ensure_ascii=False).replace("<", "\\u003c")
