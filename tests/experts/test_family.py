from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
import torch
from families import SESSIONS, TOY, families
from hypothesis import given

from whence.errors import InputError
from whence.experts.diagram import diagram_of, draw_family, lay_out
from whence.experts.family import Family, Group, Subset, parse_family, read_family

FILE = """
[groups]
content = [0, 2]
user = ["who"]

[subsets]
all = ["content", "user"]
content = ["content"]
"""


def test_read_family_accepts_column_numbers_and_names(tmp_path: Path) -> None:
    """Contained experts come first, whatever the order in the file."""
    path = tmp_path / "family.toml"
    path.write_text(FILE)
    family = read_family(path, ["genre", "who", "year"])
    assert family.groups == (Group("content", (0, 2)), Group("user", (1,)))
    assert family.names == ("content", "all")
    assert family.contained == ((), (0,))
    assert family.columns == ((0, 2), (0, 2, 1))
    assert family.sees == ((True, False), (True, True))


def graph_of(family: Family) -> nx.DiGraph:
    """Return the inclusion graph by sets of columns, with every pair."""
    seen = [set(columns) for columns in family.columns]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(family)))
    graph.add_edges_from(
        (low, high) for low, a in enumerate(seen) for high, b in enumerate(seen) if a < b
    )
    return graph


@given(family=families())
def test_diagram_matches_networkx(family: Family) -> None:
    graph, diagram = graph_of(family), diagram_of(family)
    assert {(low, high) for high, lows in enumerate(family.contained) for low in lows} == set(
        graph.edges
    )
    reduced = nx.transitive_reduction(graph)
    assert set(diagram.links) == set(reduced.edges)
    assert [sorted(above) for above in diagram.parents] == [
        sorted(reduced.successors(expert)) for expert in range(len(family))
    ]
    assert [sorted(level) for level in diagram.levels] == [
        sorted(level) for level in nx.topological_generations(graph)
    ]
    assert all(low < high for low, high in graph.edges)


@given(family=families())
def test_drawing_shows_every_expert_group_and_link(family: Family) -> None:
    picture = ElementTree.fromstring(draw_family(family))
    texts = [str(element.text) for element in picture.iter() if element.tag.endswith("}text")]
    expected: list[str] = []
    for subset in family.subsets:
        expected += [subset.name, *subset.groups]
    assert sorted(texts) == sorted(expected)
    paths = [element for element in picture.iter() if element.tag.endswith("}path")]
    assert len(paths) == len(diagram_of(family).links)


def boxes(family: Family) -> list[tuple[float, float, float, float]]:
    picture = ElementTree.fromstring(draw_family(family))
    found = [element.attrib for element in picture.iter() if element.tag.endswith("}rect")][1:]
    return [
        (float(one["x"]), float(one["y"]), float(one["width"]), float(one["height"]))
        for one in found
    ]


@given(family=families())
def test_boxes_do_not_overlap_and_fit_the_drawing(family: Family) -> None:
    size = ElementTree.fromstring(draw_family(family)).attrib
    found = boxes(family)
    assert len(found) == len(family)
    for number, (x, y, width, height) in enumerate(found):
        assert x >= 0 <= y
        assert x + width <= float(size["width"])
        assert y + height <= float(size["height"])
        for a, b, c, d in found[:number]:
            assert x + width <= a or a + c <= x or y + height <= b or b + d <= y


def test_link_across_a_level_gets_a_place_on_it() -> None:
    layout = lay_out(diagram_of(SESSIONS))
    assert [len(level) for level in layout.levels] == [4, 3, 2, 1]
    assert sorted(map(len, layout.routes)) == [2, 2, 2, 2, 2, 2, 3, 3]


def test_names_are_escaped() -> None:
    family = Family.of({"<b> & co": [0]}, {'"S"': ["<b> & co"]})
    assert "<b>" not in draw_family(family)
    ElementTree.fromstring(draw_family(family))


GROUPS = {"a": [0], "b": [1]}


@pytest.mark.parametrize(
    ("groups", "subsets", "sentence"),
    [
        (GROUPS, {"S": ["a", "c"]}, "The subset 'S' holds the unknown group 'c': known: a, b."),
        (GROUPS, {"S": ["a", "b"], "T": ["b", "a"]}, "The subsets 'S' and 'T' hold the same"),
        (GROUPS, {"S": [], "T": ["a", "b"]}, "The subset 'S' is empty."),
        (GROUPS, {"S": ["a"], "T": ["b"]}, "No subset holds all groups. Add one with a, b."),
        (GROUPS, {}, "No subset holds all groups"),
        (GROUPS, {"S": ["a", "b", "a"]}, "The subset 'S' holds the group 'a' twice."),
        ({"a": [0], "b": []}, {"S": ["a", "b"]}, "The group 'b' has no column."),
        ({"a": [0], "b": [0]}, {"S": ["a", "b"]}, "The column 0 is in 'a' and again in 'b'."),
        ({"a": [-1]}, {"S": ["a"]}, "The group 'a' has the column -1. Columns count from 0."),
        ({"a": [0.5]}, {"S": ["a"]}, "The group 'a' has the column 0.5. Columns are integers"),
        ({"a": ["x"]}, {"S": ["a"]}, "The group 'a' has the column 'x'. Columns are integers"),
        ({"a": torch.ones(1)}, {"S": ["a"]}, "The group 'a' has the column tensor(1.)."),
        ({"a": "01"}, {"S": ["a"]}, "The group 'a' needs a list of columns, not '01'."),
        ({"a": 0}, {"S": ["a"]}, "The group 'a' needs a list of columns, not 0."),
        (GROUPS, {"S": "ab"}, "The subset 'S' needs a list of groups, not 'ab'."),
        ({}, {"S": ["a"]}, "A family needs at least one group."),
    ],
)
def test_invalid_families_are_rejected(
    groups: dict[str, Any], subsets: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as problem:
        Family.of(groups, subsets)
    assert str(problem.value).startswith(sentence)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("columns", [range(2), np.arange(2), torch.arange(2), (0, np.int64(1))])
def test_columns_may_be_any_integer_type(columns: Any) -> None:  # noqa: ANN401
    (group,) = Family.of({"a": columns}, {"S": ["a"]}).groups
    assert group.columns == (0, 1)
    assert all(type(column) is int for column in group.columns)


def test_columns_of_checks_groups() -> None:
    family = Family.of({"who": [0], "what": [1]}, {"S": ["who", "what"]})
    assert family.columns_of({"what": [0]}) == ((0,),)
    with pytest.raises(InputError, match=r"^There is no group 'whom': did you mean 'who'\?"):
        family.columns_of({"whom": [0]})
    with pytest.raises(InputError, match=r"^The group 'who' has the column 0.5\."):
        family.columns_of({"who": [0.5]})  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"^The column 0 is in 'who' and again in 'what'\."):
        family.columns_of({"who": [0], "what": [0]})
    with pytest.raises(InputError, match=r"^The group 'what' has the column -1. Columns count"):
        family.columns_of({"what": [-1]})
    with pytest.raises(InputError, match=r"^The group 'what' has no column\."):
        family.columns_of({"what": []})


def test_duplicate_names_are_rejected() -> None:
    group, subset = Group("a", (0,)), Subset("S", ("a",))
    with pytest.raises(InputError, match=r"^The group 'a' is defined twice"):
        Family((group, Group("a", (1,))), (subset,))
    with pytest.raises(InputError, match=r"^The subset 'S' is defined twice"):
        Family((group,), (subset, subset))
    with pytest.raises(InputError, match=r"^There is no subset 'S9': known: S1, S2, S3"):
        TOY.index("S9")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"who"', '"whom"', "The group 'user' has the unknown column 'whom': did you mean 'who'?"),
        ("2]", "3]", "The group 'content' has the column 3, but the table's columns are 0 to 2."),
        ("2]", "2.5]", "The group 'content' has the column 2.5. Use its number or name."),
        ("[groups]", "[group]", "The family has no setting 'group': did you"),
        (
            "user =",
            "content =",
            "The name 'content' is defined twice; the second definition",
        ),
        (
            'content = ["',
            "'all' = [\n\"",
            "The name 'all' is defined twice; the second",
        ),
        (
            "[subsets]",
            "[groups]",
            "The name 'groups' is defined twice; the second",
        ),
        ("[groups]", "[groups", "The family is not valid TOML"),
        ("all =", "all = 3 #", "subsets.all needs a list, not 3."),
    ],
)
def test_invalid_files_are_rejected(old: str, new: str, sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        parse_family(FILE.replace(old, new, 1), ["genre", "who", "year"])
    assert str(problem.value).startswith(sentence)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('content = ["content"]', 'content = ["contents"]', "The subset 'content' holds the unk"),
        ('content = ["content"]', 'other = ["user", "content"]', "The subsets 'all' and 'other'"),
        (
            'all = ["content", "user"]',
            "",
            "No subset holds all groups. Add one with content",
        ),
        ('"who"', '"whom"', "The group 'user' has the unknown column 'whom'"),
        ("[subsets]", "[subset]", "The family has no setting 'subset'"),
        ("[groups]", "[groups", "The family is not valid TOML"),
        ("user =", "content =", "The name 'content' is defined twice"),
    ],
)
def test_file_errors_name_the_file(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "family.toml"
    path.write_text(new.join(FILE.rsplit(old, 1)))
    with pytest.raises(InputError) as problem:
        read_family(path, ["genre", "who", "year"])
    assert str(problem.value).startswith(f"{path}: {sentence}")


def test_unreadable_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*: No such file"):
        read_family(tmp_path / "nothing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"is not UTF-8 text"):
        read_family(tmp_path / "bytes.toml")
    with pytest.raises(InputError, match=r"^The family needs the setting 'subsets'\.$"):
        parse_family("[groups]\na = [0]")
    with pytest.raises(InputError, match=r"^The name 'a' is defined twice; the second"):
        parse_family("[groups]\na = [0]\na = [1]")
    with pytest.raises(
        InputError, match=r"names the column 'who', but no column names were passed"
    ):
        parse_family(FILE)
