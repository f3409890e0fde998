"""Entries are found by name, whoever declares them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whence.errors import InputError
from whence.registry import Registry

PLUGINS = """[whence.colours]
red = plug_in_colours:RED
green = plug_in_colours:GREEN
missing = plug_in_colours:NO_SUCH_NAME
"""


def make_registry(group: str | None = None) -> Registry[int]:
    registry: Registry[int] = Registry("colour", group=group, accept=_whole_number)
    registry.add("blue", 3, aliases=("azure",), tags=("cold",), place=20)
    registry.add("dark-blue", 4, tags=("cold",))
    registry.add("yellow", 5, place=10)
    return registry


def _whole_number(name: str, found: object) -> int:
    if not isinstance(found, int):
        raise InputError(f"{name} is no whole number")
    return found


def install(folder: Path, name: str, entry_points: str) -> None:
    """Write the metadata that an installed package has."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[int]:
    """A registry beside an installed package whose third entry does not exist."""
    (tmp_path / "plug_in_colours.py").write_text("RED = 1\nGREEN = 'green'\n")
    install(tmp_path, "plug-in-colours", PLUGINS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plug_in_colours", raising=False)
    return make_registry("whence.colours")


def test_entries_are_listed_by_place() -> None:
    registry = make_registry()
    assert dict(registry) == {"yellow": 5, "blue": 3, "dark-blue": 4}
    assert list(registry) == ["yellow", "blue", "dark-blue"]
    assert len(registry) == 3
    assert registry.tagged("cold") == ["blue", "dark-blue"]


@pytest.mark.parametrize("name", ["dark-blue", "Dark-Blue", "DARK_BLUE", " dark-blue "])
def test_look_ups_ignore_capitals_and_underscores(name: str) -> None:
    assert make_registry()[name] == 4
    assert make_registry().name_of(name) == "dark-blue"


def test_aliases_stand_for_their_entry() -> None:
    registry = make_registry()
    assert registry["Azure"] == 3
    assert registry.name_of("azure") == "blue"
    assert "azure" in registry
    assert "azure" not in list(registry)


def test_an_unknown_name_is_one_sentence_with_suggestions() -> None:
    registry = make_registry()
    with pytest.raises(InputError) as problem:
        registry["yelow"]
    assert str(problem.value) == "There is no colour 'yelow': did you mean 'yellow'?"
    with pytest.raises(InputError, match="known: blue, dark-blue, yellow"):
        registry["qqq"]
    with pytest.raises(InputError, match="did you mean 'azure'"):
        registry["azur"]
    assert "yelow" not in registry
    assert registry.get("yelow") is None


@pytest.mark.parametrize("name", ["blue", "Blue", "azure"])
def test_a_name_can_be_declared_once(name: str) -> None:
    with pytest.raises(ValueError, match=f"two colours called '{name}'"):
        make_registry().add(name, 6)


def test_a_plug_in_is_loaded_when_it_is_looked_up(plugins: Registry[int]) -> None:
    assert plugins["blue"] == 3
    assert "plug_in_colours" not in sys.modules
    with pytest.raises(InputError, match="did you mean 'red'"):
        plugins["redd"]
    assert "plug_in_colours" not in sys.modules
    assert plugins["Red"] == 1
    assert "plug_in_colours" in sys.modules


@pytest.mark.filterwarnings("default")
def test_broken_plug_ins_do_not_break_the_rest(plugins: Registry[int]) -> None:
    with pytest.raises(InputError, match="'green' of the package plug-in-colours cannot be loaded"):
        plugins["green"]
    with pytest.warns(UserWarning, match="plug-in-colours cannot be loaded") as noted:
        assert dict(plugins) == {"yellow": 5, "blue": 3, "dark-blue": 4, "red": 1}
    texts = [str(one.message) for one in noted]
    assert len(texts) == 2, "once for each"
    assert any("(InputError: green is no whole number)" in text for text in texts)
    assert any("has no attribute 'NO_SUCH_NAME'" in text for text in texts)


def test_a_plug_in_cannot_replace_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "other-blue", "[whence.colours]\nblue = nowhere:BLUE\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = make_registry("whence.colours")
    with pytest.warns(UserWarning, match="'blue' of the package other-blue is ignored"):
        assert list(registry) == ["yellow", "blue", "dark-blue"]
    assert registry["blue"] == 3
