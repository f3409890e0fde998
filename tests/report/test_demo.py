"""The demonstration and its page, in a real browser."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

import whence
from browsing import in_browser
from hostile import CONTROLS, acting
from whence.demonstration import Demonstration, default_data, demonstrate
from whence.errors import InputError
from whence.explainers import EXPLAINERS, able
from whence.explanation import Labels
from whence.picks import Recommendations, history_table, picks_table
from whence.reasons.reason import Check, Leaving, Taste, checks_title
from whence.report.charts import interval_chart, to_png
from whence.report.demo_page import write_demo_report
from whence.report.tables import accuracy_table, side_by_side
from whence.training.comparison import MAIN


@pytest.fixture(scope="module")
def demonstration(
    data_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Demonstration, Path]:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whence.demonstration.AGREEMENT_CASES", 20)
        found = demonstrate(folder, data=str(data_folder), steps=300, show_progress=False)
    return found, write_demo_report(found, folder / "report.html", "whence demo --data world")


def test_the_page_needs_nothing_but_itself(demonstration: tuple[Demonstration, Path]) -> None:
    found, path = demonstration
    page = path.read_text()
    links = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)|url\(([^)]*)\)""", page)
    assert all(inner.startswith("#") for _, inner in links)
    assert all(outer == "" for outer, _ in links)
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert "<script" not in page
    for pick in found.picks.picks:
        assert pick.title in page
    for name in able(found.run.whole, EXPLAINERS):
        assert name in page
    for system in (found.outcome.name, "popularity", "last-item"):
        assert str(found.accuracy[system]["recall@10"]) in page
        assert str(found.accuracy[system]["novelty@10"]) in page
    assert page.count("<h2>More than accuracy</h2>") == 1
    assert "novelty@10: mean self-information" in page
    assert (path.parent / "run" / "manifest.json").exists()


def test_the_page_shows_how_the_reason_was_tested(
    demonstration: tuple[Demonstration, Path],
) -> None:
    """Its kind, its confidence, every check, and ranks before and after."""
    found, path = demonstration
    page, reason = html.unescape(path.read_text()), found.explained.reason
    assert f"Why {found.explained.title}?" in page
    assert reason == whence.reason(found.run, user=found.user, item=found.explained.item)
    assert f"at rank {reason.rank}: {reason.sentence}." in " ".join(page.split())
    assert reason.checks or reason.kind == "rule"
    assert checks_title(reason) in page or reason.kind == "rule"
    for check in reason.checks:
        assert f"<td>{check.says}</td>" in page
    if reason.smallest is not None:
        assert reason.smallest.sentence[1:] in page
    for pick in found.picks.picks:
        assert pick.reason.sentence in page
        for figure in pick.reason.without:
            assert figure in page
    first = max(reason.considered, key=lambda one: abs(one.probability_lost))
    assert f"{first.rank_before} → {first.rank_without}" in page
    assert "NOTICEABLE" not in page
    assert "at least 5" not in page


def reasons(picks: Recommendations) -> int:
    """How many recommendations have a reason."""
    return sum(one.reason.kind not in ("none", "rule") for one in picks.picks)


def test_the_user_who_is_shown_has_most_reasons(
    demonstration: tuple[Demonstration, Path],
) -> None:
    found, path = demonstration
    assert found.whom in html.unescape(path.read_text())
    assert ("has the most reasons" in found.whom) is (reasons(found.picks) > 0)
    data = found.run.interactions
    lengths = sorted(len(data.history(user)) for user in range(data.user_count))
    asked = int(re.findall(r"Of (\d+) users", found.whom)[0])
    own = len(data.history(data.find_user(found.user)))
    middle = max(0, (len(lengths) - asked) // 2)
    assert lengths[middle] <= own <= lengths[middle + asked - 1]
    for user in range(0, data.user_count, 9):
        name = data.users["user"][user].as_py()
        if lengths[middle] < len(data.history(user)) < lengths[middle + asked - 1]:
            assert reasons(whence.recommend(found.run, user=name)) <= reasons(found.picks)


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_in_a_browser(demonstration: tuple[Demonstration, Path], width: int) -> None:
    """No request, no complaint, no sideways scrolling, and nothing axe objects to."""
    found, path = demonstration
    with in_browser(path, width) as page:
        assert page.locator("h1").inner_text() == "Whence: recommendations and their reasons"
        assert page.locator("svg").count() == 5, "with rollout"
        assert page.locator("tbody tr").count() >= 10 + 3 + len(able(found.run.whole, EXPLAINERS))


def test_markup_in_titles_is_escaped_on_the_page(
    demonstration: tuple[Demonstration, Path], tmp_path: Path
) -> None:
    """Neither into the text nor into the pictures."""
    found, _ = demonstration
    evil = f"<script>alert('x')</script>{CONTROLS}"
    named = tuple(replace(one, label=evil) for one in found.explained.reason.considered)
    reason = replace(
        found.explained.reason,
        considered=named,
        supports=named[:1],
        although=named[-1:],
        checks=(Check("direction", f"counts for {evil}", 1.0, True),),
        smallest=Leaving((1,), (evil,), 20, 10, True),
        taste=Taste(evil, 3, 9, 0.2, 0.1, 1, 2),
        kind="taste",
    )
    pick = replace(found.picks.picks[0], title=evil, reason=reason)
    altered_answers = {}
    for name, answer in found.explanations.items():
        assert answer.labels is not None
        slots = tuple(evil for _ in answer.labels.parts[0])
        altered_answers[name] = replace(answer, labels=Labels((slots,), (evil,)))
    altered = replace(
        found,
        picks=replace(found.picks, name=evil, history=(evil,), picks=(pick,)),
        explained=pick,
        explanations=altered_answers,
    )
    page = write_demo_report(altered, tmp_path / "page.html", "whence demo").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 10
    assert not acting(page)


def test_markup_in_titles_is_escaped_in_the_terminal(
    demonstration: tuple[Demonstration, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    found, _ = demonstration
    odd = replace(found.picks, name="[/odd]", history=("[bold]A[/nothing]",))
    Console(width=100).print(history_table(odd), picks_table(odd))
    printed = capsys.readouterr().out
    assert "[bold]A[/nothing]" in printed
    assert "[/odd]" in printed


def test_tables_in_the_terminal(
    demonstration: tuple[Demonstration, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    found, _ = demonstration
    console = Console(width=200)
    for table in (
        history_table(found.picks),
        picks_table(found.picks),
        accuracy_table(found.accuracy),
        side_by_side(found.explanations, found.explained.reason),
    ):
        console.print(table)
    printed = capsys.readouterr().out
    assert found.picks.picks[0].title in printed
    assert found.picks.history[-1] in printed
    assert str(found.accuracy["popularity"]["MRR"]) in printed
    assert "More than accuracy: what the lists are like, with 95 % intervals" in printed
    assert str(found.accuracy["popularity"]["coverage@10"]) in printed
    assert "rollout" in printed


def test_a_chart_is_a_png(demonstration: tuple[Demonstration, Path]) -> None:
    found, _ = demonstration
    assert to_png(interval_chart(found.accuracy[found.outcome.name], "accuracy"))[:4] == b"\x89PNG"


def test_agreement_with_itself_is_one(demonstration: tuple[Demonstration, Path]) -> None:
    found, _ = demonstration
    for name in able(found.run.whole, EXPLAINERS):
        assert found.agreements[name, name].value == pytest.approx(1.0)


def test_the_page_says_what_was_tried_and_how_it_compares(
    demonstration: tuple[Demonstration, Path],
) -> None:
    found, path = demonstration
    page = path.read_text()
    outcome = found.outcome
    assert page.count(outcome.closing) == 2, "at the top, and where it is shown"
    assert outcome.comparison is not None
    assert outcome.comparison.sentence in outcome.closing
    assert list(outcome.tried) == sorted(outcome.tried, key=lambda one: -outcome.tried[one])
    assert outcome.chosen == next(iter(outcome.tried))
    for name, value in outcome.tried.items():
        assert re.search(rf">{name}</th><td class=\"number\">{value:.3f}</td>", page)
    assert f"<td>{found.run.members}</td>" in page


def test_a_lead_is_taken_case_by_case(demonstration: tuple[Demonstration, Path]) -> None:
    found, _ = demonstration
    assert found.outcome.comparison is not None
    for baseline, lead in found.outcome.comparison.leads.items():
        own, other = found.accuracy[found.outcome.name][MAIN], found.accuracy[baseline][MAIN]
        assert lead.value == pytest.approx(own.value - other.value)


def test_a_world_replaces_the_demonstration_data_if_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert default_data() == "world"


@pytest.mark.needs("demo")
def test_the_embedded_data_are_the_default() -> None:
    assert default_data() == "ml-latest-small-2016"


def test_histories_too_short_for_a_demonstration_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("user,item\n1,1\n1,2\n2,1\n2,2\n")
    with pytest.raises(InputError, match="three events"):
        demonstrate(tmp_path / "demo", data=str(tmp_path / "short.csv"), show_progress=False)
