"""The tables of docs/audit.md follow the declarations of stages and measures.

To write them anew, run `python tests/trust/audit/test_audit_guide.py`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from whence.trust.audit.stage import STAGES
from whence.trust.measures import MEASURES

GUIDE = Path(__file__).parents[3] / "docs" / "audit.md"


def stages_table() -> str:
    rows = ["| stage | question | yes | partly | no |", "|---|---|---|---|---|"]
    for name, stage in STAGES.items():
        rows.append(f"| `{name}` | {stage.question} | {' | '.join(stage.criteria)} |")
    return "\n".join(rows)


def measures_table() -> str:
    rows = ["| measure | question | range | better | needs | source |", "|---|---|---|---|---|---|"]
    for name, one in MEASURES.items():
        better = one.direction.partition(" ")[0].replace("neither", "–")
        needs = ", ".join(f"`{need}`" for need in one.needs)
        low, high = map(_bound, one.range)
        rows.append(
            f"| `{name}` | {one.question} | {low} to {high} | {better} | {needs} | {one.citation} |"
        )
    return "\n".join(rows)


def _bound(number: float) -> str:
    return (
        f"{number:.3g}".replace("-", "−")
        if math.isfinite(number)
        else ("∞" if number > 0 else "−∞")
    )


TABLES = {"stages": stages_table, "measures": measures_table}


def filled(page: str) -> str:
    for name, table in TABLES.items():
        block = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
        assert block.search(page), f"the page has no markers for {name}"
        written = f"{table()}\n"
        page = block.sub(lambda _, written=written: written, page)  # type: ignore[misc]
    return page


def test_the_guide_has_the_declared_tables() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    assert filled(page) == page, "run python tests/trust/audit/test_audit_guide.py"


@pytest.mark.parametrize("name", list(STAGES))
def test_a_stage_declares_what_its_answers_mean(name: str) -> None:
    stage = STAGES[name]
    assert all(stage.criteria), "yes, partly and no"
    assert stage.question.endswith("?")
    assert f"### {stage.title}\n" in GUIDE.read_text(encoding="utf-8")


if __name__ == "__main__":
    GUIDE.write_text(filled(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
