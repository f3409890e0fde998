"""Which explainer should I use? The explainers, their measured figures, and the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from rich.console import Group
from rich.text import Text

from whence.errors import InputError
from whence.explainers import EXPLAINERS
from whence.explainers.measured import (
    CONTROL,
    FEW,
    SIGNED_ROLLOUT,
    Figures,
    Measured,
    SeedScores,
    beats_random,
    best,
)
from whence.explainers.signed_rollout import SIGNS
from whence.explanation import ITEM_WORDING
from whence.measure import mean_over_seeds
from whence.terminal import captioned, plain_table

QUESTION: Final = "Which explainer should I use?"
NOT_MEASURED: Final = (
    "Nothing has been measured yet. Measure with `python docs/examples/which_explainer.py --json "
    "FILE`, then run `whence explainers --measured FILE`."
)
ALWAYS_POSITIVE: Final = "(always positive)"
CORE: Final = ("parts", "score", "score_coalitions")
"""What every model offers."""
REASONS: Final = {
    "caused": "What caused a choice",
    "prevented": "What prevented one",
    "taste": "What shows a taste",
}


def explainer_rows() -> list[dict[str, Any]]:
    """Return every explainer with what you need to know to choose; plain types only."""
    usual = EXPLAINERS.tagged("usual")
    return [
        {
            "name": name,
            "summary": ITEM_WORDING.fill(one.summary),
            "signed": one.signed,
            "needs": list(dict.fromkeys(("parts", "score", *one.needs))),
            "cost": one.cost,
            "usual": name in usual,
        }
        for name, one in EXPLAINERS.items()
    ]


def explainers_table() -> Group:
    """Return the explainers as a table for the terminal."""
    table = plain_table("Explainers", "name", "what a score says")
    table.columns[0].no_wrap = True
    facts = plain_table("What they need", "name", "signed", "inputs", "needs")
    for row in explainer_rows():
        name = row["name"] + ("*" if row["usual"] else "")
        table.add_row(name, row["summary"])
        inputs = row["cost"].replace("at most", "≤")
        facts.add_row(row["name"], _yes(row["signed"]), inputs, _needs(row))
    legend = (
        "signed: a negative score argues against the target\n"
        "inputs: how many inputs the model scores for a history of n items, with b blocks\n"
        "needs: capabilities of the model besides parts and score"
    )
    return Group(
        captioned(table, "*: used by default if the model supports it"), captioned(facts, legend)
    )


def explainers_markdown() -> str:
    """Return the same table in Markdown."""
    rows = ["| explainer | signed | inputs scored | needs | what a score says |"]
    rows.append("| --- | --- | ---: | --- | --- |")
    for row in explainer_rows():
        cells = (f"`{row['name']}`", _yes(row["signed"]), row["cost"], _needs(row), row["summary"])
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _needs(row: dict[str, Any]) -> str:
    return ", ".join(need for need in row["needs"] if need not in CORE) or "–"


def answer_text(measured: Measured | None) -> Group:
    """Return the answer for the terminal, in paragraphs."""
    paragraphs = (line for sentence in answer(measured) for line in (Text(sentence), ""))
    return Group(Text(QUESTION, style="bold"), "", *paragraphs)


def answer(measured: Measured | None) -> list[str]:
    """Return the answer in paragraphs, with the figures that support it."""
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
    """Return the answer, then a table of the figures for each model."""
    lines = [line for sentence in answer(measured) for line in (sentence, "")]
    for model, explainers in (measured.models if measured else {}).items():
        lines += [f"**{model}**", "", *_table(explainers), ""]
    if measured:
        lines += [*_legend(measured), ""]
    return "\n".join(lines[:-1])


def fill_page(page: str, measured: Measured | None) -> str:
    """Return a Markdown page with the table of explainers and the figures between its markers."""
    page = _between("explainers", explainers_markdown(), page)
    return _between("measured", as_markdown(measured), page)


def _between(marker: str, text: str, page: str) -> str:
    start, end = f"<!-- {marker} -->\n", f"\n<!-- end of {marker} -->"
    block = re.compile(f"(?<={start}).*(?={end})", re.DOTALL)
    if not block.search(page):
        raise InputError(f"The page has no '{start.strip()}' and '{end.strip()}'.")
    return block.sub(lambda _: text, page)


def _use(measured: Measured) -> str:
    right = measured.over_models(Figures.right)
    control = right.pop(CONTROL)
    chosen, first = measured.recommended(), best(right)
    found = (
        f"Use `{chosen}`. Averaged over {' and '.join(measured.models)} and the kinds of reason, "
        f"it names the true reason in {_share(right[chosen])} of the cases, and random scores in "
        f"{_share(control)}. It takes {_milliseconds(measured, chosen)} ms per history."
    )
    if chosen == first:
        return f"{found} No other explainer is right more often."
    return (
        f"{found} `{first}`, with {_share(right[first])}, is not measurably better and takes "
        f"{_milliseconds(measured, first)} ms."
    )


def _if_cheap(measured: Measured) -> Iterator[str]:
    """Yield the best of the cheap explainers, unless the best of all is cheap."""
    cheap = measured.cheap()
    if measured.recommended() not in cheap:
        right = measured.over_models(Figures.right)
        first = best({name: right[name] for name in cheap})
        yield (
            f"If the model may score at most {FEW} inputs per history, use `{first}`. It is right "
            f"in {_share(right[first])} of the cases and takes {_milliseconds(measured, first)} ms."
        )


def _by_reason(model: str, explainers: dict[str, Figures]) -> str:
    found = []
    for reason, words in REASONS.items():
        values = {name: one.precision[reason] for name, one in explainers.items()}
        control = values.pop(CONTROL)
        first = best(values)
        text = f"`{first}`, {_share(values[first])} (random {_share(control)})"
        if not beats_random(values, control):
            text = f"none is better than random scores ({_share(control)})"
        found.append(f"{words}: {text}.")
    return f"The most accurate explainers on {model}. {' '.join(found)}"


def _without_sign(measured: Measured) -> str:
    found = measured.over_models(lambda one: one.precision["prevented"])
    control = found.pop(CONTROL)
    signed = {name: one.signed for name, one in next(iter(measured.models.values())).items()}
    without, having = (
        best({name: values for name, values in found.items() if signed[name] == side})
        for side in (False, True)
    )
    return (
        f"Unsigned explainers name what prevented a choice in at most {_share(found[without])} of "
        f"the cases (`{without}`), signed ones in up to {_share(found[having])} (`{having}`), and "
        f"random scores in {_share(control)}."
    )


def _sign_of_rollout(measured: Measured) -> str:
    plain = measured.over_models(lambda one: one.sign)
    weighted = measured.over_models(lambda one: one.weighted_sign)

    def figures(name: str) -> str:
        return f"{_share(plain[name])} of the parts ({_share(weighted[name])} by weight)"

    chosen = measured.cheap_sign()
    others = [f"{sign} for {figures(SIGNED_ROLLOUT + sign)}" for sign in SIGNS if sign != chosen]
    return (
        f"For `signed-rollout`, {chosen} is the best sign among the cheap explainers. It agrees "
        f"with the sign of Shapley values for {figures(SIGNED_ROLLOUT + chosen)}. "
        f"The other signs: {', '.join(others)}. "
        f"A sign that is always positive agrees for {figures(CONTROL)}."
    )


def _sizes(measured: Measured) -> str:
    rank = measured.over_models(lambda one: one.rank)
    others = {name: values for name, values in rank.items() if not name.startswith("shapley")}
    first, cheap = best(others), best({name: rank[name] for name in measured.cheap()})
    also = (
        f", and `{cheap}` is closest among the cheap ones (ρ {_share(rank[cheap])})"
        if cheap != first
        else ""
    )
    return (
        f"`{first}` is closest to Shapley values in the order of sizes "
        f"(ρ {_share(rank[first])}){also}."
    )


def _origin(measured: Measured) -> str:
    settings = measured.settings
    questions = ", ".join(f"{count:,} {reason}" for reason, count in measured.questions.items())
    return (
        f"Measured with `{measured.command}` on {measured.machine}: a synthetic world of "
        f"{settings['users']:,} users, histories of up to {settings['max_len']} items, "
        f"{settings['steps']:,} steps, {len(measured.seeds)} seeds. Questions: {questions}. "
        f"± is half of the 95 % t-interval over the seeds."
    )


def _table(explainers: dict[str, Figures]) -> list[str]:
    headings = ["explainer", *REASONS, "sign", "sign by weight", "order of sizes", "inputs", "ms"]
    rows = [headings, ["---"] + ["---:"] * (len(headings) - 1)]
    for name, one in explainers.items():
        right = [_share(one.precision[reason]) for reason in REASONS]
        rows.append([f"`{name}`", *right, *_signs(one), _share(one.rank), *_cost(one)])
    control = explainers[CONTROL]
    signs = [_share(control.sign), _share(control.weighted_sign)]
    rows.append([ALWAYS_POSITIVE, *["–"] * len(REASONS), *signs, "–", "–", "–"])
    return [f"| {' | '.join(row)} |" for row in rows]


def _signs(one: Figures) -> list[str]:
    return [_share(one.sign), _share(one.weighted_sign)] if one.signed else ["–", "–"]


def _cost(one: Figures) -> list[str]:
    return [
        f"{one.inputs:,.3g}" if one.inputs < 1000 else f"{one.inputs:,.0f}",
        _ms(one.milliseconds),
    ]


def _legend(measured: Measured) -> list[str]:
    sure = "; ".join(f"{model}: {_share(values)}" for model, values in measured.sure.items())
    return [
        f"- {', '.join(REASONS)}: the share of cases in which the strongest part is the true "
        "reason.",
        f"- sign: the share of parts with the same sign as `{measured.reference}`, sampled with "
        "another seed. Only parts count whose sign the reference is sure of (share of the parts, "
        f"{sure}). A random sign would agree for 0.5.",
        "- order of sizes: Spearman's ρ with the sizes of the reference.",
        "- inputs: the mean number of inputs scored for a history.",
        f"- ms: milliseconds per history, {measured.questions['caused']:,} in one batch, on "
        f"{measured.machine}.",
    ]


def _share(values: SeedScores) -> str:
    return str(mean_over_seeds(values))


def _ms(values: SeedScores) -> str:
    return f"{np.mean(values):.2g}"


def _milliseconds(measured: Measured, name: str) -> str:
    return _ms(measured.over_models(lambda one: one.milliseconds)[name])
