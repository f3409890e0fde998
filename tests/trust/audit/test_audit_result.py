"""An audit can be shown, saved and loaded, also one that version 0.1 wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import whence
from whence.errors import InputError
from whence.measure import Measure
from whence.report.audit_page import write_audit
from whence.run import Run
from whence.trust.audit.finding import Chart, Figure, Finding, dot
from whence.trust.audit.result import Audit

FORMER = Path(__file__).parents[2] / "fixtures" / "v01" / "audit.json"


def test_an_audit_of_version_0_1_opens(tmp_path: Path) -> None:
    document = json.loads(FORMER.read_text())
    found = Audit.load(FORMER)
    assert (found.run.model, found.run.seeds, found.run.wording.part) == ("sasrec", (0, 1), "item")
    assert found.settings["model_seed"] == document["settings"]["seed"]
    assert found.verdict.explainer == document["verdict"]["explainer"]
    assert (document["verdict"]["basis"], found.verdict.basis) == ("likeness", "truth")
    names = [stage["stage"] for stage in document["stages"]]
    assert [{"truth": "likeness"}.get(name, name) for name in found.stages] == names
    for (name, one), stage in zip(found.stages.items(), document["stages"], strict=True):
        assert one.question == stage["question"], "a saved audit keeps its words"
        if stage["finding"] is None:
            assert found.obstacles[name] == stage["not_measured"]
            continue
        for figure, written in zip(
            found.findings[name].figures, stage["finding"]["figures"], strict=True
        ):
            assert figure.measure.value == written["measure"]["value"]
            assert list(figure.measure.interval) == written["measure"]["interval"]
    page = write_audit(found, tmp_path / "audit.html").read_text()
    assert page.count("<svg") == sum(len(one.charts) for one in found.findings.values())
    again = Audit.from_json(found.to_json())
    assert again.as_dict() == found.as_dict()


def test_an_audit_writes_its_page_and_loads_again(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "audit"
    found = whence.audit(
        run,
        out=folder,
        stages=["accuracy", "stability"],
        methods=["rollout"],
        cases=20,
        show_progress=False,
    )
    assert {path.name for path in folder.iterdir()} == {"audit.html", "audit.json", "stages"}
    assert found.verdict.sentence in (folder / "audit.html").read_text()
    for loaded in (Audit.load(folder), Audit.load(found.save(tmp_path / "copy.json"))):
        assert loaded.to_json() == found.to_json()
    assert repr(found).startswith("Audit(sasrec, use None; accuracy: ")
    assert repr(found).endswith("stability: not measured)")
    found.show()
    printed = " ".join(capsys.readouterr().out.split())
    assert "Is the model accurate?" in printed
    assert "This stage needs at least 3 seeds" in printed
    assert "Is the model accurate?" in found._repr_html_()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 9}, "has the format 9; this version of Whence reads formats 1 and 2"),
        ({"run": {}}, "This is not the JSON of Audit"),
    ],
)
def test_a_document_that_is_no_audit_is_refused(change: dict[str, object], sentence: str) -> None:
    document = {**json.loads(FORMER.read_text()), **change}
    with pytest.raises(InputError, match=sentence):
        Audit.from_json(json.dumps(document))


def test_a_single_case_is_drawn_without_an_interval(tmp_path: Path) -> None:
    one = Measure(0.5, (0.5, 0.5), 1, "by hand", "higher is better", (0.0, 1.0))
    many = Measure(0.2, (0.1, 0.3), 30, "by hand", "higher is better", (0.0, 1.0))
    assert dot("one", one) == {"name": "one", "value": 0.5, "low": None, "high": None}
    chart = Chart("dots", "share", "Right is better.", (dot("one", one), dot("random", many)))
    finding = Finding("partly", "Half.", (Figure("share", "one", one, "Half."),), (chart,))
    found = Audit.load(FORMER)
    stage = replace(found.stages["accuracy"], finding=finding)
    page = write_audit(replace(found, stages={"accuracy": stage}), tmp_path / "page.html")
    assert "0.500 [–]" in page.read_text()
    assert "NaN" not in page.read_text()
