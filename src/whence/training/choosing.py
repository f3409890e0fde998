"""Keep what is best on the validation events: a network, a simple model, or both together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from typing import Any, Final

from whence.data.splits import HeldOut, Split
from whence.devices import device_of
from whence.models import Recommender, simple_models
from whence.run import Run
from whence.training.blending import ValidationScores, calibrate, enough_to_fit, sample_size
from whence.training.comparison import MAIN
from whence.training.evaluation import Evaluation, evaluate
from whence.training.recipes import DataShape

HELD: Final[HeldOut] = "validation"
BLEND: Final = "network and simple models"
"""What was tried last: all of them together, with weights."""


def choose(run: Run, split: Split, show_progress: bool = False) -> Run:
    """Return the run, with the simple models that make it better, or that of a better simple model.

    What was tried is recorded in `training["tried"]`, by its metric on the validation events. With
    too few of them, nothing is tried.
    """
    if not DataShape.of(split).can_validate:
        return run
    device = device_of(run.first)
    fitted = simple_models(split, show_progress=show_progress)
    simple = {name: model.to(device) for name, model in fitted.items()}
    tried = {name: _metric(model, split, show_progress) for name, model in simple.items()}
    tried[run.model] = _metric(run.whole, split, show_progress)
    blend = _blended(run, simple, split)
    if blend.simple:
        tried[BLEND] = _metric(blend.whole, split, show_progress)
    best = max(tried, key=lambda name: tried[name])  # the simplest of equals
    training = {**run.training, "tried": tried, "chosen": best}
    if best == BLEND:
        training["notes"] = [*run.training.get("notes", ()), _blend_note(split)]
    if best in simple:
        calibrate(simple[best], split)
        # It took no steps, and what was chosen for the network does not hold for it.
        notes = [f"Tried {run.model}. {note}" for note in run.training.get("notes", ())]
        training |= {"steps": 0, "patience": 0, "snapshots": 0, "notes": notes}
        return replace(_run_of(best, simple[best], run), training=training)
    return replace(blend if best == BLEND else run, training=training)


def _metric(model: Recommender, split: Split, show_progress: bool) -> float:
    evaluation = Evaluation(split, HELD, model.config.max_len, show_progress=show_progress)
    return evaluation.mean(MAIN, model)


def _blended(run: Run, simple: Mapping[str, Recommender], split: Split) -> Run:
    """Return the run with the simple models that get a weight.

    If too few events fit into memory with the scores of all items, the weights would be random.
    """
    if not enough_to_fit(split):
        return run
    scores = ValidationScores(split, device_of(run.first))
    models = {run.model: run.whole, **simple}
    found = scores.fit_weights([scores.of(model) for model in models.values()])
    weights = {name: one for name, one in zip(models, found, strict=True) if one.weight}
    kept = {name: model for name, model in simple.items() if name in weights}
    if run.model not in weights or not kept:
        return run
    return replace(run, simple=kept, weights=weights)


def _blend_note(split: Split) -> str:
    used, count = sample_size(split), len(split.held[HELD])
    some = f"{used:,} of {count:,}" if used < count else f"all {count:,}"
    return f"The weights of the models are fitted on {some} validation events."


def _run_of(name: str, model: Recommender, run: Run) -> Run:
    """Return a run of a simple model on the same data."""
    seed = next(iter(run.models))
    course: dict[str, Any] = {"steps": 0, "kept_step": 0, "final_loss": None, "validations": []}
    assert is_dataclass(model.config)
    return replace(
        run,
        model=name,
        model_settings=asdict(model.config),
        models={seed: model},
        metrics={seed: course},
        snapshots={},
    )


def with_accuracy(run: Run, split: Split, show_progress: bool) -> Run:
    """Return the run with the accuracy of each seed and, if there are several models, of all."""
    metrics = {
        seed: {**run.metrics[seed], **_accuracy(model, split, show_progress)}
        for seed, model in run.models.items()
    }
    run = replace(run, metrics=metrics)
    if run.whole is run.first:
        return run
    return replace(run, accuracy=_accuracy(run.whole, split, show_progress))


def _accuracy(model: Recommender, split: Split, show_progress: bool) -> dict[str, Any]:
    """Return a model's accuracy on every held-out part, as plain types."""
    found: dict[str, Any] = {}
    for held, cases in split.held.items():
        if len(cases):
            measures = evaluate(
                model, split, held, model.config.max_len, show_progress=show_progress
            )
            found[held] = {name: one.as_dict() for name, one in measures.items()}
    return found
