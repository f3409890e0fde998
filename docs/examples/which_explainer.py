"""Which explainer should I use? Compare all of them in a world whose true reasons are known.

    python docs/examples/which_explainer.py [--device cuda] [--json measured.json]
    python docs/examples/which_explainer.py --read measured.json [--page PAGE.md] [--picture A.png]

Trains models and measures how often each explainer names the true reason, whether it agrees with
Shapley values in sign and order, and how long it takes. Prints the answer and the figures as
Markdown. The second command prints figures that the first one wrote, without measuring again.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from whence.devices import check_device, machine
from whence.explainers import EXPLAINERS, compare_batch, explain_batch, find_explainer
from whence.explainers.measured import SIGNED_ROLLOUT, Figures, Measured, read_measured
from whence.files import make_parent, write_json
from whence.measure import mean_over_seeds
from whence.models import Recommender
from whence.report.which import as_markdown, fill_page
from whence.trust import precision_at_cause, sign_agreement
from whence.trust.agreement.rank_agreement import agreement, sure_parts
from whence.worlds import REASONS, WorldConfig, WorldQuestions, make_world

MODELS: dict[str, dict[str, Any]] = {"sasrec": {}, "bert4rec": {"mask_prob": 0.2}}
SIGNS = ("fading", "gradient-input", "leave-one-out", "both")
METHODS = [
    method
    for name, one in EXPLAINERS.items()
    if not {"selections", "contributions"} & {*one.needs}
    for method in (
        [SIGNED_ROLLOUT + sign for sign in SIGNS] if name == "signed-rollout" else [name]
    )
]
REFERENCE_SEED = 1_000
"""Another seed than that of the explainers: a shared error would look like agreement."""


@dataclass(frozen=True)
class Settings:
    """What is trained and measured."""

    users: int = 3_000
    versions: int = WorldConfig.versions
    max_len: int = 20
    steps: int = 2_500
    seeds: int = 5
    cases: int = 500
    coalitions: int = 4_096


FiguresByName = dict[str, float]
"""The figures of one explainer, one model and one kind of reason."""


def main() -> None:
    """Measure, or read figures, and print them."""
    chosen = _parse()
    for path in filter(None, (chosen.json, chosen.picture)):
        make_parent(path)
    measured = read_measured(chosen.read) if chosen.read else measure(chosen)
    print(as_markdown(measured))
    if chosen.json:
        write_json(chosen.json, measured.as_dict())
    if chosen.page:
        chosen.page.write_text(fill_page(chosen.page.read_text(), measured))
    if chosen.picture:
        chosen.picture.write_bytes(picture(measured))


def measure(chosen: argparse.Namespace) -> Measured:
    """Measure every model in one world, with the same questions."""
    settings = Settings(**{field.name: getattr(chosen, field.name) for field in fields(Settings)})
    device = check_device(chosen.device)
    reference = f"shapley:coalitions={settings.coalitions}"
    world = make_world(WorldConfig(users=settings.users, versions=settings.versions))
    questions = [world.questions(reason, settings.max_len, settings.cases) for reason in REASONS]
    models, sure = {}, {}
    for name in chosen.model or MODELS:
        run = whence.train(
            world.interactions,
            model=name,
            model_settings={"max_len": settings.max_len, **MODELS[name]},
            training={"steps": settings.steps},
            seeds=settings.seeds,
            device=device,
        )
        asked = [
            [ask(model, one, reference, seed) for one in questions]
            for seed, model in run.models.items()
        ]
        title = type(run.first).__name__
        times = [clock(model, questions[0], seed) for seed, model in run.models.items()]
        models[title] = {method: figures(method, asked, times) for method in METHODS}
        sure[title] = [float(np.mean([one.sure for one in kinds])) for kinds in asked]
    return Measured(
        command=_command(chosen),
        machine=machine(device),
        versions={"whence": whence.__version__, "torch": torch.__version__},
        seeds=list(range(settings.seeds)),
        settings=asdict(settings),
        questions={one.reason: len(one.cases) for one in questions},
        reference=reference,
        sure=sure,
        models=models,
    )


@dataclass(frozen=True)
class Answers:
    """The figures of all explainers for the questions of one kind."""

    rows: dict[str, FiguresByName]
    sure: float
    """The share of parts whose sign the reference is sure of."""


def ask(model: Recommender, questions: WorldQuestions, reference: str, seed: int) -> Answers:
    """Compare all explainers with the reference on the same cases."""
    batch, targets = tensors(model, questions)
    trusted = explain_batch(model, batch, targets, reference, REFERENCE_SEED)
    rows = {
        method: {
            "inputs": float(explanation.evaluations.mean()),
            "precision": precision_at_cause(explanation, questions).value,
            "sign": sign_agreement(explanation, trusted).value,
            "weighted_sign": sign_agreement(explanation, trusted, weighted=True).value,
            "rank": agreement(explanation, trusted).value,
        }
        for method, explanation in compare_batch(model, batch, targets, METHODS, seed).items()
    }
    return Answers(rows, float(sure_parts(trusted)[trusted.parts].mean()))


def clock(model: Recommender, questions: WorldQuestions, seed: int) -> dict[str, float]:
    """Return the milliseconds per history of each explainer, in one batch, after a warm-up.

    Explanations are on the CPU at the end, so a GPU has finished by then.
    """
    batch, targets = tensors(model, questions)
    found = {}
    for method in METHODS:
        explain_batch(model, batch, targets, method, seed)
        start = time.perf_counter()
        explain_batch(model, batch, targets, method, seed)
        found[method] = 1_000 * (time.perf_counter() - start) / len(batch)
    return found


def tensors(model: Recommender, questions: WorldQuestions) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the histories and the targets on the device of the model."""
    device = next(model.parameters()).device
    batch = torch.from_numpy(questions.cases.histories(model.config.max_len))
    return batch.to(device), torch.from_numpy(questions.cases.targets).to(device)


def figures(method: str, asked: list[list[Answers]], times: list[dict[str, float]]) -> Figures:
    """Return one value per seed, as the mean over the kinds of reason."""

    def of(name: str) -> list[float]:
        return [float(np.mean([one.rows[method][name] for one in kinds])) for kinds in asked]

    return Figures(
        signed=find_explainer(method)[1].signed,
        inputs=float(np.mean(of("inputs"))),
        precision={
            reason: [kinds[place].rows[method]["precision"] for kinds in asked]
            for place, reason in enumerate(REASONS)
        },
        sign=of("sign"),
        weighted_sign=of("weighted_sign"),
        rank=of("rank"),
        milliseconds=[by_method[method] for by_method in times],
    )


def picture(measured: Measured) -> bytes:
    """Return a chart of the precision at what caused a choice, for the first model, as PNG."""
    from whence.report.charts import interval_chart, to_png

    explainers = next(iter(measured.models.values()))
    found = {name: mean_over_seeds(one.precision["caused"]) for name, one in explainers.items()}
    return to_png(interval_chart(found, "precision at the true cause"))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", choices=list(MODELS), help="by default all")
    parser.add_argument("--device", default="cpu")
    for field in fields(Settings):
        parser.add_argument(_option(field.name), type=int, default=field.default)
    for name in ("json", "read", "page", "picture"):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    if chosen.seeds < 2:
        parser.error("an interval over seeds needs at least two of them")
    return chosen


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _command(chosen: argparse.Namespace) -> str:
    """Return the command that measures the same figures."""
    words = [f"--model {name}" for name in chosen.model or []]
    defaults = {"device": "cpu", **asdict(Settings())}
    words += [
        f"{_option(name)} {getattr(chosen, name)}"
        for name, default in defaults.items()
        if getattr(chosen, name) != default
    ]
    return " ".join(["python docs/examples/which_explainer.py", *words])


if __name__ == "__main__":
    main()
