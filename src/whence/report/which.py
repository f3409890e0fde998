"""Which explainer should I use? What they are, what was measured of them, and the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from whence.errors import InputError
from whence.explainers import EXPLAINERS
from whence.explainers.measured import (
    CONTROL,
    FEW,
    SIGNED_ROLLOUT,
    Figures,
    Measured,
    Values,
    beats_chance,
    best,
)
from whence.explainers.signed_rollout import SIGNS
from whence.measure import mean_over_seeds
from whence.spoken import OF_HISTORIES
from whence.terminal import captioned, plain_table

QUESTION: Final = "Which explainer should I use?"
NOT_MEASURED: Final = (
    "Nothing has been measured: `python docs/examples/which_explainer.py --json FILE` measures, "
    "and `whence explainers --measured FILE` then answers."
)
ALWAYS_FOR: Final = "(for, always)"
OF_ALL: Final = ("parts", "score", "score_coalitions")
"""What every explainer needs of a model; coalitions come with scores."""
REASONS: Final = {
    "caused": "what caused a choice",
    "prevented": "what prevented one",
    "taste": "what shows a taste",
}
BLOCK: Final = re.compile(r"(?<=<!-- measured -->\n).*(?=\n<!-- end of measured -->)", re.DOTALL)


def explainer_rows() -> list[dict[str, Any]]:
    """Every explainer with what a person must know to choose; plain types only."""
    return [
        {
            "name": name,
            "says": OF_HISTORIES.say(one.summary),
            "signed": one.signed,
            "needs": list(dict.fromkeys(("parts", "score", *one.needs))),
            "inputs": one.cost,
        }
        for name, one in EXPLAINERS.items()
    ]


def explainers_table() -> Group:
    """The same for the terminal."""
    table = plain_table("Explainers", "name", "what it says", "sign", "needs", "inputs")
    table.columns[0].no_wrap = True
    for row in explainer_rows():
        needs = ", ".join(need for need in row["needs"] if need not in OF_ALL)
        sign = "yes" if row["signed"] else "no"
        inputs = row["inputs"].replace("at most", "≤")
        table.add_row(row["name"], escape(row["says"]), sign, needs or "–", inputs)
    return captioned(
        table,
        "sign: whether it tells for from against; needs: of a model, beside parts and scores;\n"
        "inputs: how many the model scores for a history of n items, with b blocks",
    )


def answer_text(measured: Measured | None) -> Group:
    """The answer for the terminal, a paragraph a sentence."""
    paragraphs = (line for sentence in answer(measured) for line in (Text(sentence), ""))
    return Group(Text(QUESTION, style="bold"), "", *paragraphs)


def answer(measured: Measured | None) -> list[str]:
    """The answer in sentences, with the figures it rests on."""
    if measured is None:
        return [NOT_MEASURED]
    return [
        _use(measured),
        *_if_cheap(measured),
        *(_by_reason(model, explainers) for model, explainers in measured.models.items()),
        _without_sign(measured),
        _sign_of_rollout(measured),
        _sizes(measured),
        _origin(measured),
    ]


def as_markdown(measured: Measured | None) -> str:
    """The answer, then a table of the figures for each model."""
    lines = [line for sentence in answer(measured) for line in (sentence, "")]
    for model, explainers in (measured.models if measured else {}).items():
        lines += [f"**{model}**", "", *_table(explainers), ""]
    if measured:
        lines += [_legend(measured), ""]
    return "\n".join(lines[:-1])


def fill_page(page: str, measured: Measured | None) -> str:
    """A page of Markdown with what was measured between its two marks."""
    if not BLOCK.search(page):
        raise InputError("The page has no '<!-- measured -->' and '<!-- end of measured -->'.")
    return BLOCK.sub(lambda _: as_markdown(measured), page)


def _use(measured: Measured) -> str:
    right = measured.over_models(Figures.right)
    chance = right.pop(CONTROL)
    chosen, first = measured.recommended(), best(right)
    found = (
        f"Use `{chosen}`: over {' and '.join(measured.models)} and the kinds of reason it names "
        f"the true one in {_share(right[chosen])} of the cases, chance in {_share(chance)}; it "
        f"takes {_milliseconds(measured, chosen)} ms a history."
    )
    if chosen == first:
        return f"{found} No other is right more often."
    return (
        f"{found} `{first}`, with {_share(right[first])}, is not measurably better and takes "
        f"{_milliseconds(measured, first)} ms."
    )


def _if_cheap(measured: Measured) -> Iterator[str]:
    """Where the best is not cheap already."""
    cheap = measured.cheap()
    if measured.recommended() not in cheap:
        right = measured.over_models(Figures.right)
        first = best({name: right[name] for name in cheap})
        yield (
            f"Where a model may be asked only {FEW} times a history or less, use `{first}`: right "
            f"in {_share(right[first])} of the cases, {_milliseconds(measured, first)} ms."
        )


def _by_reason(model: str, explainers: dict[str, Figures]) -> str:
    told = []
    for reason, words in REASONS.items():
        values = {name: one.precision[reason] for name, one in explainers.items()}
        chance = values.pop(CONTROL)
        first = best(values)
        found = f"`{first}`, {_share(values[first])} (chance {_share(chance)})"
        if not beats_chance(values, chance):
            found = f"nobody names it more often than chance ({_share(chance)})"
        told.append(f"{words}: {found}")
    return f"Most often right on {model} about {'; '.join(told)}."


def _without_sign(measured: Measured) -> str:
    found = measured.over_models(lambda one: one.precision["prevented"])
    chance = found.pop(CONTROL)
    signed = {name: one.signed for name, one in next(iter(measured.models.values())).items()}
    blind, seeing = (
        best({name: values for name, values in found.items() if signed[name] == side})
        for side in (False, True)
    )
    return (
        f"What prevented a choice, the methods without a sign name in at most "
        f"{_share(found[blind])} of the cases (`{blind}`), those with one in up to "
        f"{_share(found[seeing])} (`{seeing}`), chance in {_share(chance)}."
    )


def _sign_of_rollout(measured: Measured) -> str:
    plain = measured.over_models(lambda one: one.sign)
    weighted = measured.over_models(lambda one: one.weighted_sign)

    def figures(name: str) -> str:
        return f"{_share(plain[name])} ({_share(weighted[name])} by weight)"

    chosen = measured.cheap_sign()
    others = [
        f"that of {sign} at {figures(SIGNED_ROLLOUT + sign)}" for sign in SIGNS if sign != chosen
    ]
    return (
        f"`signed-rollout` best takes its sign, of the cheap ones, from {chosen}: that is "
        f"Shapley's at {figures(SIGNED_ROLLOUT + chosen)} of the parts, {', '.join(others)}. To "
        f"speak for every part is right at {figures(CONTROL)}."
    )


def _sizes(measured: Measured) -> str:
    rank = measured.over_models(lambda one: one.rank)
    others = {name: values for name, values in rank.items() if not name.startswith("shapley")}
    first, cheap = best(others), best({name: rank[name] for name in measured.cheap()})
    also = f"; of the cheap ones `{cheap}` (ρ {_share(rank[cheap])})" if cheap != first else ""
    return (
        f"Nearest to Shapley's values in the order of sizes, without being them, is `{first}` "
        f"(ρ {_share(rank[first])}){also}."
    )


def _origin(measured: Measured) -> str:
    settings = measured.settings
    asked = ", ".join(f"{count:,} {reason}" for reason, count in measured.questions.items())
    return (
        f"Measured by `{measured.command}` on {measured.machine}: a world of "
        f"{settings['users']:,} users, histories of up to {settings['max_len']} items, "
        f"{settings['steps']:,} steps, {len(measured.seeds)} seeds, questions: {asked}. ± is half "
        f"of the 95 % t-interval over the seeds."
    )


def _table(explainers: dict[str, Figures]) -> list[str]:
    headings = ["explainer", *REASONS, "sign", "sign by weight", "order of sizes", "inputs", "ms"]
    rows = [headings, ["---"] + ["---:"] * (len(headings) - 1)]
    for name, one in explainers.items():
        right = [_share(one.precision[reason]) for reason in REASONS]
        rows.append([f"`{name}`", *right, *_signs(one), _share(one.rank), *_cost(one)])
    control = explainers[CONTROL]
    signs = [_share(control.sign), _share(control.weighted_sign)]
    rows.append([ALWAYS_FOR, *["–"] * len(REASONS), *signs, "–", "–", "–"])
    return [f"| {' | '.join(row)} |" for row in rows]


def _signs(one: Figures) -> list[str]:
    return [_share(one.sign), _share(one.weighted_sign)] if one.signed else ["–", "–"]


def _cost(one: Figures) -> list[str]:
    return [
        f"{one.inputs:,.3g}" if one.inputs < 1000 else f"{one.inputs:,.0f}",
        _ms(one.milliseconds),
    ]


def _legend(measured: Measured) -> str:
    sure = "; ".join(
        f"{_share(values)} of the parts with {model}" for model, values in measured.sure.items()
    )
    return (
        f"{', '.join(REASONS)}: how often the strongest part is the true reason. sign: the share "
        f"of a history's parts with the sign of `{measured.reference}`, drawn with another seed, "
        f"among those it is sure of ({sure}); a coin would have 0.5. order of sizes: Spearman's ρ "
        f"with its sizes. inputs: scored a history, on average. ms: a history, "
        f"{measured.questions['caused']:,} in one batch, on {measured.machine}."
    )


def _share(values: Values) -> str:
    return str(mean_over_seeds(values))


def _ms(values: Values) -> str:
    return f"{np.mean(values):.2g}"


def _milliseconds(measured: Measured, name: str) -> str:
    return _ms(measured.over_models(lambda one: one.milliseconds)[name])
