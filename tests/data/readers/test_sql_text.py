"""Where a query ends, and whether it has an ORDER BY."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bounded import bounded
from whence.data.readers.sql_text import (
    POSTGRES,
    SQLITE,
    has_order_by,
    tokens,
    without_semicolon,
)

BOTH = pytest.mark.parametrize("grammar", [POSTGRES, SQLITE], ids=["postgres", "sqlite"])
PIECES = [*"';\"$()[]`\\\n\r e", "--", "/*", "*/", "E'", "$$", "$a$", "order", "by", "é", "1"]


@BOTH
@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t ORDER BY a",
        "select a from t order\n\tby a desc;",
        "SELECT a FROM t ORDER /* by */ BY a",
        "SELECT a FROM t ORDER -- by\n BY a",
        "SELECT '(' FROM t ORDER BY a",
        "SELECT \"(\" FROM t ORDER BY a -- (",
        "SELECT '''' || '(' FROM t ORDER BY a",
        "SELECT max(b) OVER (PARTITION BY (c)) FROM t ORDER BY a",
        "WITH x AS (SELECT 1) SELECT * FROM x ORDER BY 1 LIMIT 3",
    ],
)  # fmt: skip
def test_an_order_is_found(query: str, grammar: re.Pattern[str]) -> None:
    assert has_order_by(query, grammar)


@BOTH
@pytest.mark.parametrize(
    "query",
    [
        "SELECT row_number() OVER (ORDER BY a) FROM t",
        "SELECT 'ORDER BY a' FROM t",
        'SELECT "ORDER" "BY" FROM t',
        "SELECT a FROM t -- ORDER BY a",
        "SELECT a FROM t /* ORDER BY a */",
        "SELECT a FROM (SELECT a FROM t ORDER BY a) AS x",
        "SELECT reorder, by_ FROM t",
        "SELECT a AS order_by, border BY FROM t",
        "SELECT a FROM t ORDER",
        "",
    ],
)  # fmt: skip
def test_what_only_looks_like_an_order_is_not(query: str, grammar: re.Pattern[str]) -> None:
    assert not has_order_by(query, grammar)


@pytest.mark.parametrize(
    ("query", "grammar"),
    [
        ("SELECT $$)$$ FROM t ORDER BY a", POSTGRES),
        ("SELECT $x$ $$ ) $x$ FROM t ORDER BY a", POSTGRES),
        (r"SELECT E'\')' FROM t ORDER BY a", POSTGRES),
        ("SELECT a[1] FROM t /* /* */ ) */ ORDER BY a", POSTGRES),
        ("SELECT array['a]', '('] FROM t ORDER BY a", POSTGRES),
        ("SELECT 1 -- a\rFROM t ORDER BY a", POSTGRES),
        ("SELECT [)], `)` FROM t ORDER BY a", SQLITE),
        ("SELECT 'a\\' FROM t /* /* */ ORDER BY a", SQLITE),
    ],
)
def test_an_order_is_found_in_the_grammar_of_the_database(
    query: str, grammar: re.Pattern[str]
) -> None:
    assert has_order_by(query, grammar)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT 1;", "SELECT 1"),
        (" SELECT 1 ; ;\n-- done\n/* really; */", " SELECT 1"),
        ("SELECT 1 -- a comment;", "SELECT 1"),
        ("SELECT ';'", "SELECT ';'"),
        ("SELECT $$;$$;", "SELECT $$;$$"),
        ("SELECT 1; SELECT 2;", "SELECT 1; SELECT 2"),
        ("SELECT 1; /* not closed", "SELECT 1"),
        ("SELECT 1; 'not closed", "SELECT 1; 'not closed"),
        ("SELECT 1 -- a\rFROM t;", "SELECT 1 -- a\rFROM t"),
        (";", ""),
    ],
)
def test_semicolons_at_the_end_are_removed(query: str, kept: str) -> None:
    assert without_semicolon(query, POSTGRES) == kept


@BOTH
@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_tokens_are_pieces_of_the_query_in_order(grammar: re.Pattern[str], query: str) -> None:
    before = 0
    for token in tokens(query, grammar):
        assert before < token.end <= len(query)
        assert token.text in query[before : token.end]
        before = token.end


@BOTH
@pytest.mark.parametrize("piece", [*PIECES, "(", "'a", "E'\\'", "$a", "/* */", "order ", "/*/"])
def test_long_queries_take_linear_time(piece: str, grammar: re.Pattern[str]) -> None:
    query = piece * (200_000 // len(piece))
    with bounded():
        has_order_by(query, grammar)
