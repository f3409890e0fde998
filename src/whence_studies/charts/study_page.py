"""A study for people: Markdown, and where they can be drawn, charts and one page with all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import whence
from whence.files import new_file
from whence_studies.charts.study_tables import as_markdown, origins, study_tables
from whence_studies.records import Record
from whence_studies.study import Study

if TYPE_CHECKING:
    import altair as alt

DRAWING = ("altair", "vl_convert", "jinja2")
"""What charts and pages need, and a machine that only trains may not have."""

LIBRARY = "window.vegaEmbed = vegaEmbed;"
"""What the page needs of Vega."""


def can_draw() -> bool:
    """Whether charts and pages can be made here."""
    return all(find_spec(name) is not None for name in DRAWING)


def write_study(study: Study, records: Sequence[Record], folder: Path) -> list[Path]:
    """`<id>.md` and, where they can be drawn, `<id>.html` and every chart as PNG and SVG."""
    contents: dict[str, bytes] = {f"{study.id}.md": as_markdown(study, records).encode()}
    if can_draw():
        contents |= _drawn(study, records)
    for name, content in contents.items():
        with new_file(folder / name) as partial:
            partial.write_bytes(content)
    return [folder / name for name in contents]


def _drawn(study: Study, records: Sequence[Record]) -> dict[str, bytes]:
    from whence.report.charts import to_png, to_svg
    from whence_studies.charts.study_charts import slug, study_charts

    charts = study_charts(study, records)
    contents = {f"{study.id}.html": _page(study, records, charts).encode()}
    for title, chart in charts.items():
        name = f"{study.id}-{slug(title)}"
        contents[f"{name}.png"] = to_png(chart)
        contents[f"{name}.svg"] = to_svg(chart, f"{study.title}: {title}").encode()
    return contents


def _page(study: Study, records: Sequence[Record], charts: dict[str, alt.FacetChart]) -> str:
    """Tables and charts in one file that asks for no other."""
    import vl_convert
    from markupsafe import Markup

    from whence.report.charts import specification, to_svg
    from whence.report.pages import render

    drawn = {
        title: {
            "picture": Markup(to_svg(chart, f"{title}: chart")),
            "definition": Markup(_in_script(specification(chart, f"{title}: chart"))),
        }
        for title, chart in charts.items()
    }
    return render(
        "study.html.j2",
        package="whence_studies",
        title=study.title,
        source=study.source,
        origins=origins(records),
        tables=study_tables(study, records),
        charts=drawn,
        library=Markup(vl_convert.javascript_bundle(LIBRARY) if drawn else ""),
        version=whence.__version__,
        name=study.name,
    )


def _in_script(document: object) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(document, ensure_ascii=False).replace("<", "\\u003c")
