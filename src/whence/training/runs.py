"""`whence.train`: interactions in, a run out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch

import whence
from whence.config import build, suggest_setting
from whence.data.interactions import Interactions
from whence.data.sources import Source, load
from whence.data.splits import Split, split_by
from whence.devices import check_device
from whence.errors import InputError
from whence.files import check_can_write, make_parent
from whence.measure import Measure
from whence.models import ModelSpec, model_spec
from whence.models.baselines import BASELINES, MEAN_RATING, MeanRating
from whence.run import Run, snapshot_files
from whence.training.checkpoints import Unfinished
from whence.training.config import TrainingConfig, check_precision
from whence.training.evaluation import Evaluation, evaluate
from whence.training.loop import Fitted
from whence.training.seeds import fit_seeds


def train(
    data: Source | Callable[[], Interactions],
    *,
    model: str = "sasrec",
    model_settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    seeds: int = 1,
    split: str = "last-two",
    init_from: Sequence[Run] = (),
    out: Path | str | None = None,
    overwrite: bool = False,
    device: str = "cpu",
    show_progress: bool = True,
    seeds_at_once: int | None = None,
    until: float | None = None,
) -> Run:
    """Train one model a seed, measure each, and write the run folder if `out` is given.

    Seeds train as one computation, as many as memory holds where `seeds_at_once` does not say how
    many; each goes the same way as alone, but for the last bits. A seed whose loss is no longer a
    number is left out of the run, with a warning.

    Stopped by whatever, the same call with the same `out` goes on and comes to the same bits; a
    training not done at `until`, by `time.monotonic()`, stops itself with `OutOfTime`.
    Unknown settings raise before anything is read, also where `data` is a function that reads.

    `init_from` are runs of other models, on the same data and split, that first weights are taken
    from: of the same seed where they have it.
    """
    if seeds < 1 or (seeds_at_once is not None and seeds_at_once < 1):
        raise InputError("Training needs at least one seed, and at least one at once.")
    spec = model_spec(model)
    given = model_settings or {}
    model_config = build(spec.config, given)
    training_config = build(TrainingConfig, as_published(spec, training or {}))
    if spec.knows_users and split == "user-holdout":
        raise InputError(
            f"{model} knows the users it was trained on, and a user-holdout split asks it about "
            "others; choose last-two, or a model that reads histories."
        )
    check_beginnings(model, init_from)
    check_device(device)
    check_precision(training_config, device)
    if out is None and training_config.snapshots:
        raise InputError("snapshots are kept in the run folder; say where, with out.")
    if out is not None:
        check_can_write(Path(out), overwrite)
        make_parent(Path(out))
    interactions = data() if callable(data) else load(data)
    check_known(init_from, interactions, split)
    held_out = split_by(split, interactions)
    # Whoever reads a figure of such a run is told, wherever its protocol is written.
    held_out = replace(held_out, protocol=held_out.protocol + training_config.chosen_on)
    settings = _with_room(spec, asdict(model_config), given, interactions)
    described = {
        **asdict(training_config),
        "split": split,
        "begun_with": [_beginning(run) for run in init_from],
        "protocol": held_out.protocol,
        "device": device,
        "threads": torch.get_num_threads(),
    }
    unfinished = None
    if out is not None:
        whole = {"model": model, **settings, **described, **_circumstances(interactions)}
        unfinished = Unfinished(Path(out), whole, overwrite)
    try:
        fitted = fit_seeds(
            held_out,
            model,
            settings,
            training_config,
            range(seeds),
            device,
            show_progress=show_progress,
            unfinished=unfinished,
            at_once=seeds_at_once,
            until=until,
            init_from=init_from,
        )
    finally:
        if unfinished is not None:
            unfinished.remove_if_nothing_is_kept()
    lost = [seed for seed in range(seeds) if seed not in fitted]
    if lost:
        warnings.warn(
            f"The loss of seed {', '.join(map(str, lost))} was no number any more; the run has the "
            f"other {len(fitted)} seeds. A smaller learning rate than "
            f"{training_config.learning_rate} might keep them all.",
            stacklevel=2,
        )
    run = Run(
        model=model,
        model_settings=settings,
        training=described,
        data=describe(interactions),
        catalog=interactions.catalog,
        models={seed: one.model for seed, one in fitted.items()},
        metrics={seed: _measured(one, held_out, show_progress) for seed, one in fitted.items()},
        loaded=interactions,
    )
    if out is None or unfinished is None:
        return run
    kept = {seed: snapshot_files(unfinished.snapshots(seed)) for seed in fitted}
    saved = replace(run, snapshots=kept).save(out, overwrite)
    unfinished.remove()
    return saved


def as_published(spec: ModelSpec, training: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, and as the model's authors trained where nothing was."""
    defaults = dict(spec.training)
    if "steps" in training and not training.get("epochs"):
        defaults.pop("epochs", None)
    return {**defaults, **training}


def _with_room(
    spec: ModelSpec, settings: dict[str, Any], given: Mapping[str, Any], data: Interactions
) -> dict[str, Any]:
    """The settings, but larger where the data need it and nobody says how large."""
    needed = {} if spec.room is None else spec.room(data)
    grown = {name: max(least, settings[name]) for name, least in needed.items()}
    return {**settings, **{name: size for name, size in grown.items() if name not in given}}


def check_beginnings(model: str, runs: Sequence[Run]) -> None:
    """Refuse runs that the model cannot begin with."""
    if not runs:
        return
    wanted = model_spec(model).init_from
    given = tuple(run.model for run in runs)
    if not wanted:
        raise InputError(f"{model} begins with no other model; leave init_from out.")
    if sorted(given) != sorted(wanted):
        raise InputError(
            f"{model} begins with {' and '.join(wanted)}, and these are {' and '.join(given)}."
        )


def check_known(runs: Sequence[Run], interactions: Interactions, split: str) -> None:
    """Refuse runs that know other items by these numbers, or know what is held out here."""
    for run in runs:
        if run.data["hash"] != interactions.content_hash:
            raise InputError(
                f"This {run.model} was trained on other data, where a number is another item; "
                "train it on the same."
            )
        if run.training["split"] != split:
            raise InputError(
                f"This {run.model} was trained by {run.training['split']}, and would know what "
                f"{split} holds out; train it by the same split."
            )


def _beginning(run: Run) -> dict[str, Any]:
    """Enough to tell one run's weights from another's."""
    return {"model": run.model, "data": run.data["hash"], **run.training, **run.model_settings}


def _circumstances(interactions: Interactions) -> dict[str, str]:
    """What else must be the same for a training to be gone on with."""
    return {
        "data": interactions.content_hash,
        "version of Whence": whence.__version__,
        "version of PyTorch": torch.__version__,
    }


def _measured(fitted: Fitted, split: Split, show_progress: bool) -> dict[str, Any]:
    """How the training went, and the accuracy on every part that is held out."""
    accuracy: dict[str, Any] = {
        held: plain_measures(
            evaluate(
                fitted.model, split, held, fitted.model.config.max_len, show_progress=show_progress
            )
        )
        for held, cases in split.held.items()
        if len(cases)
    }
    return {
        "steps": len(fitted.losses),
        "kept_step": fitted.kept,
        "final_loss": fitted.losses[-1] if fitted.losses else None,
        "validations": [[step, value] for step, value in fitted.validations.items()],
        **accuracy,
    }


def baseline_accuracy(
    interactions: Interactions,
    split: str,
    length: int,
    show_progress: bool = False,
    *,
    rated: bool = False,
) -> dict[str, dict[str, Measure]]:
    """What simple rules reach on the same test events, and of their ratings if `rated`."""
    held_out = split_by(split, interactions)
    if not len(held_out.held["test"]):
        return {}
    found = {
        name: evaluate(make(held_out), held_out, "test", length, show_progress=show_progress)
        for name, make in BASELINES.items()
    }
    if rated:
        mean = Evaluation(held_out, "test", length).rated(MeanRating(held_out))
        found[MEAN_RATING] = mean.measures()
    return found


def split_settings(
    model: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the model and of the training, told apart by their names."""
    own = {field.name for field in fields(model_spec(model).config)}
    training = {field.name for field in fields(TrainingConfig)}
    for key in settings:
        if key not in own | training:
            raise InputError(
                f"Neither {model} nor training has a setting '{key}': "
                f"{suggest_setting(key, own | training)}"
            )
    return (
        {key: value for key, value in settings.items() if key in own},
        {key: value for key, value in settings.items() if key in training},
    )


def describe(interactions: Interactions) -> dict[str, Any]:
    """What a run remembers of its data."""
    return {
        "origin": dict(interactions.origin),
        "hash": interactions.content_hash,
        "users": interactions.user_count,
        "items": interactions.item_count,
        "events": len(interactions),
        "verb": interactions.verb,
    }


def plain_measures(measures: Mapping[str, Measure]) -> dict[str, Any]:
    """As they are written down."""
    return {name: measure.as_dict() for name, measure in measures.items()}
