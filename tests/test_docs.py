"""The documentation: its examples run, its commands exist, its links and tables are right."""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from whence.cli import app
from whence.cli.training import written_setting
from whence.config import settings_help
from whence.experts import draw_family
from whence.explainers.measured import measured_here
from whence.models.sasrec import SASRecConfig
from whence.report.which import fill_page
from whence.training import TrainingConfig
from whence.training.recipes import BUDGETS, RECIPES
from whence_studies.skips import EXPERTS

ROOT = Path(__file__).parent.parent
USING = ROOT / "docs" / "using.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


# tests/test_contributing.py runs those of CONTRIBUTING.md, which add entries to registries.
@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.name != "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec", dont_inherit=True), names)


@cache
def help_of(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, f"whence {' '.join(command)} is no command"
    return result.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    for line in lines:
        assert line.startswith("$ ")
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[0] == "pip":
            extras = re.findall(r"\[(.+)\]", words[-1])
            declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            assert set(extras) <= set(declared["optional-dependencies"])
            continue
        if words[0] != "whence":
            assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
            continue
        command = words[1:3] if words[1] in ("data", "study") else words[1:2]
        known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_of(*command)))
        assert {word for word in words if word.startswith("-")} <= known, line


def test_the_picture_of_who_sees_what_is_of_the_experts() -> None:
    picture = ROOT / "docs" / "images" / "session-experts.svg"
    assert picture.read_text(encoding="utf-8") == draw_family(EXPERTS)


def test_the_guide_lists_the_explainers_and_their_figures() -> None:
    guide = (ROOT / "docs" / "explainers.md").read_text()
    assert fill_page(guide, measured_here()) == guide, (
        "run python docs/examples/which_explainer.py --read src/whence/explainers/measured.json "
        "--page docs/explainers.md to update the page"
    )


def settings_tables() -> str:
    """Return the tables of settings, as their declarations describe them."""
    tables = []
    for title, config in (("`sasrec`", SASRecConfig), ("training", TrainingConfig)):
        rows = [f"| setting of {title} | default | what it is |", "|---|---|---|"]
        rows += [
            f"| `{one.name}` | {written_setting(one.default)} | {one.help} |"
            for one in settings_help(config)
        ]
        tables.append("\n".join(rows))
    return "\n\n".join(tables)


def recipes_table() -> str:
    """Return the rows of `whence recipes`."""
    rows = [
        f"| `{name}` | {', '.join(f'`{model}`' for model in one.models) or 'all'} | {one.summary} |"
        for name, one in RECIPES.items()
    ]
    return "\n".join(["| recipe | models | what it is |", "|---|---|---|", *rows])


def efforts_table() -> str:
    """Return what each effort allows."""
    rows = [
        f"| `{name}` | {one.longest} | {one.steps:,} | {one.steps_for_many:,} | {one.seeds} |"
        for name, one in BUDGETS.items()
    ]
    heading = "| `--effort` | longest history | most steps | with many events | seeds |"
    return "\n".join([heading, "|---|---|---|---|---|", *rows])


TABLES = {"settings": settings_tables, "recipes": recipes_table, "efforts": efforts_table}


def with_tables(page: str) -> str:
    """Return the page with the tables between their markers."""
    for name, table in TABLES.items():
        before, found, rest = page.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition(f"<!-- end of {name} -->")
        assert found, f"the page has no place for {name}"
        page = f"{before}{found}{table()}\n<!-- end of {name} -->{after}"
    return page


def test_the_tables_on_the_page_are_the_declared_ones() -> None:
    page = USING.read_text(encoding="utf-8")
    assert page == with_tables(page), "run python tests/test_docs.py to update the page"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", index)}
    pages = {page.resolve() for page in PAGES if page.name not in ("index.md", "README.md")}
    assert pages <= linked


def test_no_page_is_empty() -> None:
    assert all(len(page.read_text()) > 200 for page in PAGES)


TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""Pages without names of former versions."""


@pytest.mark.parametrize("page", TODAY, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    places = (ROOT, ROOT / "src", ROOT / "src" / "whence", ROOT / "src" / "whence_studies")
    for name in re.findall(r"`(\w+(?:/\w+)+\.py)`", page.read_text()):
        assert any((place / name).exists() for place in places), name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"


if __name__ == "__main__":
    USING.write_text(with_tables(USING.read_text(encoding="utf-8")), encoding="utf-8")
