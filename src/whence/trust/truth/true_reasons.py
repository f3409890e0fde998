"""True reasons: on a synthetic world they are known, so explainers can be tested against them.

`precision_on_world` makes a world that resembles the data, trains the same kind of model there and
tests explainers on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

import numpy as np

from whence.arrays import Floats
from whence.config import build
from whence.data.interactions import Interactions
from whence.data.splits import HeldOut, split_by
from whence.devices import device_of
from whence.errors import InputError
from whence.explainers import explain_batch, find_explainer
from whence.explanation import Explanation
from whence.measure import Measure, mean_measure, over_seeds
from whence.models import Recommender, fitted_model, model_spec
from whence.models.dropping import with_removal
from whence.progress import progress_bar
from whence.ranking import batch_and_targets
from whence.run import Run
from whence.training import Evaluation, TrainingConfig, train
from whence.trust.measures import MEASURES, MeasureSpec
from whence.worlds import REASONS, StatisticPair, WorldQuestions, compare_statistics, world_like

HELD: Final[HeldOut] = "test"
RECALL: Final = "recall@10"
USERS: Final = 5_000
"""The largest number of users of the world."""
IN_STEPS: Final = ("warmup", "average_every", "validate_every")
"""Training settings that scale with the number of steps."""


def precision_at_cause(explanation: Explanation, questions: WorldQuestions) -> Measure:
    """Return how often the strongest part is the true cause (for taste: an item of the genre)."""
    hits = hits_at_cause(explanation, questions)
    return mean_measure(hits, f"the strongest part is the true reason; {questions.reason} events")


def hits_at_cause(explanation: Explanation, questions: WorldQuestions) -> Floats:
    """Return 1 if the strongest part is the true cause, else 0 `[B]`.

    The strongest part is the one most in favour, or most against if the question is what prevented
    the target; a method without signs has only magnitudes. If several parts are equally strong,
    the case counts with the share of them that is true.
    """
    _check(explanation, questions)
    against = explanation.signed and questions.reason == "prevented"
    strength = -explanation.scores if against else explanation.scores
    strength = np.where(explanation.parts, strength, -np.inf)
    first = strength == strength.max(axis=1, keepdims=True)
    hits: Floats = (first & questions.truth).sum(axis=1) / first.sum(axis=1)
    return hits


def sign_at_cause(explanation: Explanation, questions: WorldQuestions) -> Measure:
    """Return how often the true cause has the right sign: for what it caused, against otherwise.

    For taste, a case counts with the share of the genre's items that are in favour. An importance
    of 0 is not right. Raises for a method without signs.
    """
    _check(explanation, questions)
    if not explanation.signed:
        raise InputError(
            f"{explanation.method} has no signs; use an explainer whose importances have signs."
        )
    side = -1 if questions.reason == "prevented" else 1
    right = questions.truth & (np.sign(explanation.scores) == side)
    share = right.sum(axis=1) / questions.truth.sum(axis=1)
    return mean_measure(share, f"the true reason has the right sign; {questions.reason} events")


def _check(explanation: Explanation, questions: WorldQuestions) -> None:
    """Raise if there are no questions, or if the explanation is of others."""
    if not len(questions.truth):
        raise InputError(f"The world has no {questions.reason} events to test.")
    if explanation.scores.shape != questions.truth.shape:
        found, asked = list(explanation.scores.shape), list(questions.truth.shape)
        raise InputError(
            f"The explanation is of shape {found} and the questions of shape {asked}; explain the "
            "cases of these questions."
        )


MEASURES.add(
    "precision-at-cause",
    MeasureSpec(
        precision_at_cause,
        "Is the strongest part the true cause, on a synthetic world?",
        "higher is better",
        (0.0, 1.0),
        lambda small: (small.signed, small.questions),
    ),
)
MEASURES.add(
    "sign-at-cause",
    MeasureSpec(
        sign_at_cause,
        "Does the true cause have the right sign, on a synthetic world?",
        "higher is better",
        (0.0, 1.0),
        lambda small: (small.signed, small.questions),
    ),
)


@dataclass(frozen=True)
class ReasonScore:
    """How often an explainer is right about one kind of reason."""

    precision: Measure
    """How often the strongest part is the true reason."""
    sign: Measure | None
    """How often the true reason has the right sign; `None` for a method without signs."""
    hits: tuple[float, ...]
    """By case, for comparing explainers case by case."""


@dataclass(frozen=True)
class WorldAccuracy:
    """The accuracy on the world of the model trained there, and of popularity."""

    model: Measure
    popularity: Measure


@dataclass(frozen=True)
class TruthOnWorld:
    """How explainers do on a world that resembles the data."""

    alike: Sequence[StatisticPair]
    """Statistics of the data and of the world."""
    scores: Mapping[str, Mapping[str, ReasonScore]]
    """By explainer, then by reason; reasons that do not occur in the world are left out."""
    accuracy: WorldAccuracy | None
    """`None` if the split holds out no events of the world."""


def precision_on_world(
    run: Run,
    interactions: Interactions,
    explainers: Sequence[str],
    *,
    users: int = USERS,
    steps: int = 1_000,
    seeds: int = 1,
    cases: int = 200,
    seed: int = 0,
    memory: int | None = None,
    removal: str | None = None,
    show_progress: bool = True,
) -> TruthOnWorld:
    """Train the run's kind of model on a world like the data, and test explainers there.

    Model and training settings are those of the run, except for the number of steps. Each reason is
    tested on at most `cases` cases, the same for all seeds; `seed` makes the world and draws them.
    With one seed the interval is over cases, with several over seeds. About `memory` bytes are used
    at a time. `removal` is how explainers remove items, by default as the model does.
    """
    if not explainers or cases < 1:
        raise InputError("Name at least one explainer, and use at least one case.")
    for explainer in explainers:
        find_explainer(explainer)
    world = world_like(interactions, users=users, seed=seed)
    length = run.first.config.max_len
    asked = [world.questions(reason, length, cases, seed) for reason in REASONS]
    asked = [questions for questions in asked if len(questions.cases)]
    if not asked:
        raise InputError("A world like these data has no events with known reasons; use more data.")
    trained = train(
        world.interactions,
        model=run.model,
        model_settings=run.model_settings,
        training=_in_fewer_steps(run, steps),
        seeds=seeds,
        split=run.training["split"],
        device=str(device_of(run.first)),
        show_progress=show_progress,
    )
    pairs = [(explainer, questions) for explainer in explainers for questions in asked]
    scores: dict[str, dict[str, ReasonScore]] = {explainer: {} for explainer in explainers}
    for explainer, questions in progress_bar("testing", len(pairs), show_progress).track(pairs):
        said = [
            _explain(with_removal(model, removal), questions, explainer, own, memory)
            for own, model in trained.models.items()
        ]
        scores[explainer][questions.reason] = _score(said, questions)
    accuracy = _accuracy(trained, world.interactions, run.training["split"])
    return TruthOnWorld(compare_statistics(interactions, world.interactions), scores, accuracy)


def _accuracy(trained: Run, interactions: Interactions, by: str) -> WorldAccuracy | None:
    """Compare with popularity: a model that is no better has no reasons to find."""
    split = split_by(by, interactions)
    if not len(split.held[HELD]):
        return None
    own = [Measure.from_dict(found[HELD][RECALL]) for found in trained.metrics.values()]
    popularity = fitted_model("popularity", {}, split)
    rule = Evaluation(split, HELD, popularity.config.max_len).full(popularity)
    return WorldAccuracy(_over_seeds(own), rule.measures()[RECALL])


def _in_fewer_steps(run: Run, steps: int) -> dict[str, Any]:
    """Return the run's training settings, scaled to fewer steps and without snapshots."""
    if model_spec(run.model).closed_form:
        return {}
    training = run.training
    own = {
        field.name for field in fields(TrainingConfig)
    } & training.keys()  # the run may have newer settings
    settings = asdict(build(TrainingConfig, {name: training[name] for name in own}))
    before = max(1, settings["steps"])
    if settings["epochs"]:  # then validate_every counts epochs
        before = max(1, *(found["steps"] for found in run.metrics.values()))
        settings["validate_every"] *= max(1, before // settings["epochs"])
    shares = {name: max(1, settings[name] * steps // before) for name in IN_STEPS if settings[name]}
    return {**settings, **shares, "steps": steps, "epochs": 0, "snapshots": 0}


def _explain(
    model: Recommender, questions: WorldQuestions, explainer: str, seed: int, memory: int | None
) -> Explanation:
    batch, targets = batch_and_targets(model, questions.cases, model.config.max_len)
    return explain_batch(model, batch, targets, explainer, seed, memory=memory)


def _score(said: Sequence[Explanation], questions: WorldQuestions) -> ReasonScore:
    """Score the explanations of one explainer for the models of all seeds."""
    signs = [sign_at_cause(one, questions) for one in said if one.signed]
    precisions = [precision_at_cause(one, questions) for one in said]
    hits = np.mean([hits_at_cause(one, questions) for one in said], axis=0)
    return ReasonScore(
        _over_seeds(precisions), _over_seeds(signs) if signs else None, tuple(hits.tolist())
    )


def _over_seeds(measures: Sequence[Measure]) -> Measure:
    """Return the mean with its interval over seeds, if there are several."""
    first = measures[0]
    if len(measures) == 1:
        return first
    protocol = f"{first.protocol}; mean over {len(measures)} seeds"
    return over_seeds(replace(first, protocol=protocol), [one.value for one in measures])
