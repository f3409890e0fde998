"""Models are found by name, and other packages can add some."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import whence
from conftest import AddModel
from whence.config import settings_help
from whence.data import Interactions
from whence.errors import InputError
from whence.models import MODELS, ModelSpec
from whence.models.registry import items_only, model_spec
from whence.models.sasrec import SASRec, SASRecConfig

PLUG_IN = """
from whence.models import ModelSpec
from whence.models.registry import items_only
from whence.models.sasrec import SASRec, SASRecConfig

OURS = ModelSpec(SASRecConfig, items_only(SASRec), summary="A model of another package.")
NO_SPEC = SASRec
"""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SASRec", "sasrec"),
        ("BERT4Rec", "bert4rec"),
        ("deepicf_a", "deepicf-a"),
        ("DeepICF+a", "deepicf-a"),
        ("interpretable-ncf", "intrp-ncf"),
    ],
)
def test_names_ignore_capitals_and_know_aliases(name: str, meant: str) -> None:
    assert MODELS.name_of(name) == meant
    assert model_spec(name) is MODELS[meant]


def test_an_unknown_model_is_one_sentence_with_suggestions() -> None:
    with pytest.raises(
        InputError,
        match=r"^There is no model 'sasrek': did you mean 'sasrec' or 'esasrec' or 'ease'\?$",
    ):
        model_spec("sasrek")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_summary_and_help_for_its_settings(name: str) -> None:
    spec = MODELS[name]
    assert spec.summary.endswith(".")
    config: Any = spec.config
    assert all(setting.help for setting in settings_help(config))


def test_a_run_knows_its_model_by_its_own_name(interactions: Interactions) -> None:
    sizes = {"max_len": 4, "dim": 4}
    run = whence.train(
        interactions,
        model="SASRec",
        model_settings=sizes,
        training={"steps": 1},
        show_progress=False,
    )
    assert run.model == "sasrec"


def test_other_packages_add_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, add_model: AddModel
) -> None:
    """A package names them in its entry points, in the group `whence.models`."""
    (tmp_path / "plug_in_models.py").write_text(PLUG_IN)
    metadata = tmp_path / "plug_in_models-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in-models\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[whence.models]\nours = plug_in_models:OURS\nbroken = plug_in_models:NO_SPEC\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plug_in_models", raising=False)
    monkeypatch.setattr(MODELS, "__dict__", {**MODELS.__dict__})
    MODELS.__dict__.pop("_plugins", None)
    add_model("here", ModelSpec(SASRecConfig, items_only(SASRec)))  # which copies the entries
    assert model_spec("Ours").summary == "A model of another package."
    with pytest.raises(InputError, match="'broken' of the package plug-in-models cannot be loaded"):
        model_spec("broken")
