"""Whether each explainer finds the true reason, and its sign, in worlds where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whence.config import build
from whence.errors import InputError, did_you_mean
from whence.explainers import compare_batch, find_explainer
from whence.models import Recommender
from whence.progress import progress_bar
from whence.ranking import batch_and_targets
from whence.run import Run
from whence.trust.truth.true_reasons import precision_at_cause, sign_at_cause
from whence.worlds import REASONS, World, WorldConfig, WorldQuestions, make_world
from whence_studies.measurements.measurement import HeatMap, MeasuredRun, Measurement, SeedColumn

EXPLAINERS: Final = (
    "attention-first",
    "attention-last",
    "rollout",
    "gradient-rollout",
    "attention-flow",
    "gradient-norm",
    "gradient-input",
    "integrated-gradients",
    "fading",
    "signed-rollout",
    "leave-one-out",
    "lime",
    "shapley",
    "random",
)
SIGNED: Final = tuple(name for name in EXPLAINERS if find_explainer(name)[1].signed)


@dataclass(frozen=True)
class TruthOptions:
    """The number of questions for every kind of reason, and who answers them."""

    questions: int = 500
    explainers: tuple[str, ...] = ()
    """Those that are asked; all by default."""

    def __post_init__(self) -> None:
        if self.questions < 1:
            raise InputError(f"questions must be at least 1, not {self.questions}.")
        for name in self.explainers:
            if name not in EXPLAINERS:
                raise InputError(
                    f"True reasons are not measured for '{name}': {did_you_mean(name, EXPLAINERS)}"
                )


def precision(explainer: str, reason: str) -> str:
    """Return the column of how often the strongest part is the true reason."""
    return f"precision of {explainer}, {reason}"


def sign(explainer: str, reason: str) -> str:
    """Return the column of how often the true reason has the right sign."""
    return f"sign of {explainer}, {reason}"


def truth(subject: MeasuredRun, options: TruthOptions) -> dict[str, SeedColumn]:
    """Return the columns of every seed's model, for the same questions."""
    world = _world_of(subject.run)
    length = subject.run.first.config.max_len
    questions = [world.questions(reason, length, options.questions) for reason in REASONS]
    asked = options.explainers or EXPLAINERS
    bar = progress_bar("asking", len(subject.run.models), subject.show_progress, transient=True)
    found = [
        {
            column: value
            for one in questions
            for column, value in _answers(model, one, asked, seed).items()
        }
        for seed, model in bar.track(subject.run.models.items())
    ]
    counts = {one.reason: len(one.cases) for one in questions}
    return {
        column: SeedColumn(
            per_seed=tuple(one[column] for one in found),
            n=counts[reason],
            protocol=f"events of a synthetic world with known reasons: {reason}",
            direction="higher is better",
        )
        for column in found[0]
        for reason in [column.rpartition(", ")[2]]
    }


def _world_of(run: Run) -> World:
    settings = run.interactions.origin.get("world")
    if settings is None:
        raise InputError('True reasons are known only for synthetic worlds. Use data = "world".')
    return make_world(build(WorldConfig, settings))


def _answers(
    model: Recommender, questions: WorldQuestions, asked: Sequence[str], seed: int
) -> dict[str, float]:
    batch, targets = batch_and_targets(model, questions.cases, model.config.max_len)
    found = {}
    for name, explanation in compare_batch(model, batch, targets, asked, seed).items():
        found[precision(name, questions.reason)] = precision_at_cause(explanation, questions).value
        if explanation.signed:
            found[sign(name, questions.reason)] = sign_at_cause(explanation, questions).value
    return found


MEASUREMENT: Final = Measurement(
    (
        *(precision(name, reason) for name in EXPLAINERS for reason in REASONS),
        *(sign(name, reason) for name in SIGNED for reason in REASONS),
    ),
    truth,
    TruthOptions,
    maps={
        "precision": HeatMap(
            title="How often the strongest item is the true reason",
            down="explainer",
            across="reason",
            value="precision",
            cells={
                (name, reason): precision(name, reason) for name in EXPLAINERS for reason in REASONS
            },
        ),
        "sign": HeatMap(
            title="How often the true reason has the right sign",
            down="explainer",
            across="reason",
            value="share",
            cells={(name, reason): sign(name, reason) for name in SIGNED for reason in REASONS},
            middle=0.5,
        ),
    },
)
