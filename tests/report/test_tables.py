"""Tables of accuracy and of the lists, by system and by seed."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from rich.console import RenderableType

from whence.console import SafeConsole
from whence.explanation import Explanation, Labels
from whence.measure import Direction, Measure, protocol_lines
from whence.reasons.reason import Reason, Support
from whence.report.tables import NOT_MEASURED, accuracy_table, seeds_table, side_by_side


def measure(value: float, protocol: str, direction: Direction) -> Measure:
    return Measure(value, (value - 0.01, value + 0.01), 50, protocol, direction, (-9.0, 9.0))


def measures(first: float) -> dict[str, Measure]:
    """Return measures with values that differ."""
    accuracy = {"recall@10": "50 events; ranked among all", "HR@10": "50 events; among some"}
    lists = {
        "coverage@10": "50 events; lists; what is shown",
        "novelty@10": "50 events; lists; in bits",
        "diversity@10": "50 events; lists; of pairs",
        "popularity bias@10": "50 events; lists; 0 is no bias",
    }
    found = {name: measure(first, said, "higher is better") for name, said in accuracy.items()}
    return found | {
        name: measure(first + place, said, "neither")
        for place, (name, said) in enumerate(lists.items(), start=1)
    }


def printed(shown: RenderableType, width: int) -> list[str]:
    console = SafeConsole(file=io.StringIO(), width=width)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_lists_have_a_table_of_their_own() -> None:
    systems = {name: measures(value) for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))}
    lines = printed(accuracy_table(systems), 80)
    text = " ".join(" ".join(lines).split())
    assert text.count("with 95 % intervals") == 2
    assert text.startswith("How well the next item is ranked, with 95 % intervals")
    assert "More than accuracy: what the lists are like, with 95 % intervals" in text
    after = lines[next(n for n, line in enumerate(lines) if "More than accuracy" in line) :]
    (row,) = (n for n, line in enumerate(after) if line.strip().startswith("b "))
    assert after[row].split() == ["b", "1.200", "2.200", "3.200", "4.200"]
    assert after[row + 1].split()[1] == "[2.190–2.210]"
    assert [line.strip() for line in lines if line.startswith("50 events")] == [
        "50 events",
        "50 events; lists",
    ]
    assert "novelty@10: in bits" in lines


def test_lists_of_several_seeds() -> None:
    metrics = {
        seed: {"test": {name: one.as_dict() for name, one in measures(value).items()}}
        for seed, value in ((0, 0.1), (1, 0.3))
    }
    rule = measures(0.5)
    del rule["novelty@10"]
    ratings = {"rating error": measure(0.5, "of ratings", "lower is better")}
    lines = printed(seeds_table(metrics, {"rule": rule, "mean rating": ratings}), 100)
    after = lines[next(n for n, line in enumerate(lines) if "More than accuracy" in line) :]
    rows = {line.split()[0]: line.split() for line in after if line.strip()}
    assert rows["rule"] == ["rule", "1.500", NOT_MEASURED, "3.500", "4.500"]
    assert rows["mean"][1:4] == ["1.200", "±", "1.271"]
    assert [line.split()[-1] for line in after if line.startswith(" seed ")] == ["4.100", "4.300"]
    assert not any("mean rating" in line for line in lines)


def test_a_seed_that_lacks_a_measure_leaves_its_column_out() -> None:
    metrics = {
        seed: {"test": {n: m.as_dict() for n, m in measures(0.1).items()}} for seed in (0, 1)
    }
    del metrics[1]["test"]["diversity@10"]
    text = "\n".join(printed(seeds_table(metrics, {}), 100))
    assert "novelty@10" in text
    assert "diversity@10" not in text


def test_what_protocols_share_is_said_once() -> None:
    assert protocol_lines({}) == []
    assert protocol_lines({"a": "one; two", "b": "one; two"}) == ["a, b: one; two"]
    assert protocol_lines({"a": "one; two", "b": "one; three"}) == ["one", "a: two", "b: three"]
    assert protocol_lines({"a": "one", "b": "one; two"}) == ["a: one", "b: one; two"]
    assert protocol_lines({"a": "x; y; 1", "b": "x; y; 2", "c": "x; y; 1"}) == [
        "x; y",
        "a, c: 1",
        "b: 2",
    ]


def explained(scores: list[float], method: str = "shapley", signed: bool = True) -> Explanation:
    return Explanation(
        scores=np.array([scores]),
        parts=np.ones((1, len(scores)), dtype=bool),
        target=np.array([9]),
        full_score=np.array([1.0]),
        empty_score=np.array([0.0]),
        removal="dropped",
        method=method,
        parameters={},
        seed=0,
        evaluations=np.array([4]),
        signed=signed,
        labels=Labels((("Alien", "Heat", "Casino"),), ("Ran",), ((1, 2, 3),), (10,)),
    )


def because(*lost: float) -> Reason:
    """Return a reason with what is lost without each of the three items."""
    each = tuple(
        Support(item, label, share, 1.0, 1.0, None, 0.5, 4, 4 + item)
        for item, label, share in zip((1, 2, 3), ("Alien", "Heat", "Casino"), lost, strict=True)
    )
    return Reason("item", "watched", 4, (each[0],), considered=each[::-1])


def test_ranks_stand_next_to_what_leaving_an_item_out_changes() -> None:
    lines = printed(side_by_side({"shapley": explained([2, 1, -1])}, because(0.4, -0.1, 0)), 100)
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    assert rows["Alien"] == ["−40", "%", "4", "→", "5", "50"]
    assert rows["Heat"] == ["+10", "%", "4", "→", "6", "25"]
    assert rows["Casino"] == ["0", "%", "4", "→", "7", "−25"]
    assert "and its rank before → after" in " ".join(" ".join(lines).split())


def test_an_item_of_the_history_has_no_rank() -> None:
    seen = replace(because(0.4, 0.1, 0.2), in_history=True)
    lines = printed(side_by_side({"shapley": explained([2, 1, 1])}, seen), 100)
    (row,) = (line.split() for line in lines if line.strip().startswith("Alien"))
    assert row == ["Alien", "−40", "%", NOT_MEASURED, "50"]


def test_a_sign_that_differs_from_leaving_out_is_explained() -> None:
    """Only if both are shown with a sign, after rounding."""

    def legend(*answers: Explanation, lost: tuple[float, float, float]) -> str:
        found = side_by_side({one.method: one for one in answers}, because(*lost))
        return " ".join(" ".join(printed(found, 200)).split())

    said = "signs differ from 'left out' in"
    agreeing, other = explained([2, 1, -1]), explained([2, -1, -1], "lime")
    assert said not in legend(agreeing, lost=(0.4, 0.2, -0.1))
    assert f"{said} lime: only 'left out' asks" in legend(agreeing, other, lost=(0.4, 0.2, -0.1))
    assert f"{said} shapley, lime:" in legend(agreeing, other, lost=(-0.4, 0.2, -0.1))
    assert said not in legend(agreeing, lost=(0.4, -0.004, -0.1)), "shown as 0"
    assert said not in legend(explained([2, 1, 1], "rollout", signed=False), lost=(0.4, -0.2, 0.1))
