"""Truth on a world in the likeness of the data: there the same kind of model can be marked."""

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
from whence.models import Recommender
from whence.models.baselines import Popularity
from whence.progress import progress_bar
from whence.ranking import batch_and_targets
from whence.run import Run
from whence.training import Evaluation, TrainingConfig, train
from whence.worlds import REASONS, StatisticPair, WorldQuestions, compare_statistics, world_like

HELD: Final[HeldOut] = "test"
LEARNED: Final = "recall@10"
USERS: Final = 5_000
"""Of the world, at most."""
IN_STEPS: Final = ("warmup", "average_every", "validate_every")
"""Settings of a training that stay the same share of all its steps."""


def precision_at_cause(explanation: Explanation, questions: WorldQuestions) -> Measure:
    """How often the strongest part is the true cause (for taste: an item of the genre)."""
    hits = hits_at_cause(explanation, questions)
    return mean_measure(hits, f"the strongest part is the true reason; {questions.reason} events")


def hits_at_cause(explanation: Explanation, questions: WorldQuestions) -> Floats:
    """`[B]`: 1 where the strongest part is the true cause, else 0.

    "Strongest" is most in favour, or most against where the question is what prevented the target;
    a method without a sign can only say how much. Where several parts are equally strong, the case
    counts with the share of them that is true.
    """
    _check(explanation, questions)
    against = explanation.signed and questions.reason == "prevented"
    strength = -explanation.scores if against else explanation.scores
    strength = np.where(explanation.parts, strength, -np.inf)
    first = strength == strength.max(axis=1, keepdims=True)
    hits: Floats = (first & questions.truth).sum(axis=1) / first.sum(axis=1)
    return hits


def sign_at_cause(explanation: Explanation, questions: WorldQuestions) -> Measure:
    """How often the true cause speaks for what it caused, or against what it prevented.

    For taste a case counts with the share of the items of the genre that speak for the target. A
    sign of 0 takes no side and is not right; a method without signs cannot be asked.
    """
    _check(explanation, questions)
    if not explanation.signed:
        raise InputError(
            f"{explanation.method} does not tell for from against, so it has no sign at the cause."
        )
    side = -1 if questions.reason == "prevented" else 1
    right = questions.truth & (np.sign(explanation.scores) == side)
    share = right.sum(axis=1) / questions.truth.sum(axis=1)
    return mean_measure(share, f"the true reason has the right sign; {questions.reason} events")


def _check(explanation: Explanation, questions: WorldQuestions) -> None:
    """Refuse what was not asked, and where nothing was."""
    if not len(questions.truth):
        raise InputError(f"The world has no {questions.reason} events to ask about.")
    if explanation.scores.shape != questions.truth.shape:
        told, asked = list(explanation.scores.shape), list(questions.truth.shape)
        raise InputError(
            f"An explanation of {told} cases by slots does not answer questions of {asked}."
        )


@dataclass(frozen=True)
class Mark:
    """How right an explainer is about one kind of reason."""

    precision: Measure
    """How often the strongest part is the true reason."""
    sign: Measure | None
    """How often the true reason has the right sign; None of a method without signs."""
    hits: tuple[float, ...]
    """Of each case, how often: for differences between explainers, case by case."""


@dataclass(frozen=True)
class Learned:
    """What the model that was trained on the world foresees there, and what popularity does."""

    model: Measure
    popularity: Measure


@dataclass(frozen=True)
class TruthOnWorld:
    """What a world in the likeness of the data says of explainers."""

    alike: Sequence[StatisticPair]
    """The data beside the world, a row a figure."""
    marks: Mapping[str, Mapping[str, Mark]]
    """By explainer, then by reason; a reason that nothing has in the world is left out."""
    learned: Learned | None
    """None where no events of the world are held out for it."""


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
    show_progress: bool = True,
) -> TruthOnWorld:
    """Train the run's kind of model on a world like the data, and mark explainers by its truth.

    Model and training are set as in the run, but for the number of steps. Of each reason at most
    so many cases are asked, the same of the models of all seeds; `seed` makes the world and draws
    them. One seed has an interval over cases, several have theirs over seeds. Explainers use about
    `memory` bytes at a time.
    """
    if not explainers or cases < 1:
        raise InputError("Marks on a world need an explainer and at least one case.")
    for explainer in explainers:
        find_explainer(explainer)
    world = world_like(interactions, users=users, seed=seed)
    length = run.first.config.max_len
    asked = [world.questions(reason, length, cases, seed) for reason in REASONS]
    asked = [questions for questions in asked if len(questions.cases)]
    if not asked:
        raise InputError("In a world like these data nothing has a reason: there is too little.")
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
    marks: dict[str, dict[str, Mark]] = {explainer: {} for explainer in explainers}
    for explainer, questions in progress_bar("marking", len(pairs), show_progress).track(pairs):
        said = [
            _answer(model, questions, explainer, own, memory)
            for own, model in trained.models.items()
        ]
        marks[explainer][questions.reason] = _mark(said, questions)
    learned = _learned(trained, world.interactions, run.training["split"])
    return TruthOnWorld(compare_statistics(interactions, world.interactions), marks, learned)


def _learned(trained: Run, interactions: Interactions, by: str) -> Learned | None:
    """On the same events: a model that is no better than popularity has no reasons to find."""
    split = split_by(by, interactions)
    if not len(split.held[HELD]):
        return None
    own = [Measure.from_dict(found[HELD][LEARNED]) for found in trained.metrics.values()]
    rule = Evaluation(split, HELD, trained.first.config.max_len).full(Popularity(split))
    return Learned(_over_seeds(own), rule.measures()[LEARNED])


def _in_fewer_steps(run: Run, steps: int) -> dict[str, Any]:
    """The same training, as far as a number of steps allows; without snapshots."""
    training = run.training
    own = {field.name for field in fields(TrainingConfig)} & training.keys()  # some may be newer
    settings = asdict(build(TrainingConfig, {name: training[name] for name in own}))
    before = max(1, settings["steps"])
    if settings["epochs"]:  # which validate_every counts
        before = max(1, *(found["steps"] for found in run.metrics.values()))
        settings["validate_every"] *= max(1, before // settings["epochs"])
    shares = {name: max(1, settings[name] * steps // before) for name in IN_STEPS if settings[name]}
    return {**settings, **shares, "steps": steps, "epochs": 0, "snapshots": 0}


def _answer(
    model: Recommender, questions: WorldQuestions, explainer: str, seed: int, memory: int | None
) -> Explanation:
    batch, targets = batch_and_targets(model, questions.cases, model.config.max_len)
    return explain_batch(model, batch, targets, explainer, seed, memory=memory)


def _mark(said: Sequence[Explanation], questions: WorldQuestions) -> Mark:
    """The answers of one explainer about the models of all seeds."""
    signs = [sign_at_cause(one, questions) for one in said if one.signed]
    precisions = [precision_at_cause(one, questions) for one in said]
    hits = np.mean([hits_at_cause(one, questions) for one in said], axis=0)
    return Mark(
        _over_seeds(precisions), _over_seeds(signs) if signs else None, tuple(hits.tolist())
    )


def _over_seeds(measures: Sequence[Measure]) -> Measure:
    """The mean with its interval over seeds, where there are several."""
    first = measures[0]
    if len(measures) == 1:
        return first
    protocol = f"{first.protocol}; mean over {len(measures)} seeds"
    return over_seeds(replace(first, protocol=protocol), [one.value for one in measures])
