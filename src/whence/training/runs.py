"""`whence.train`: from data to a trained and evaluated run."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import whence
from whence.config import suggest_setting
from whence.data.copies import keep_copy
from whence.data.interactions import Counts, Interactions
from whence.data.sources import Source, load
from whence.data.splits import split_by
from whence.devices import check_device
from whence.engine.checkpoints import VERSION, CheckpointFolder, checkpoint_folder
from whence.errors import InputError, RunError
from whence.files import check_can_write, claim_folder
from whence.locks import Lock
from whence.models import build_model, model_spec
from whence.run import Run, open_run
from whence.run_document import snapshot_files
from whence.training.choosing import choose, with_accuracy
from whence.training.config import TrainingConfig
from whence.training.plans import NOMINAL, Asked
from whence.training.recipes import DEFAULT, Effort
from whence.training.recommenders import TrainedRecommender
from whence.training.seeds import fit_seeds

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from whence.reasons.calibration import Calibrating


def train(
    data: Source | Callable[[], Interactions],
    *,
    model: str | None = None,
    recipe: str = DEFAULT,
    effort: Effort = "normal",
    model_settings: Mapping[str, Any] | DataclassInstance | None = None,
    training: Mapping[str, Any] | TrainingConfig | None = None,
    seeds: int | None = None,
    split: str = "last-two",
    init_from: Sequence[Run] = (),
    out: Path | str | None = None,
    overwrite: bool = False,
    device: str = "cpu",
    show_progress: bool = True,
    seeds_at_once: int | None = None,
    until: float | None = None,
    calibrate: bool = False,
    calibrate_minutes: float | None = None,
) -> Run:
    """Train one model per seed, evaluate them, and write the run folder if `out` is given.

    Without a `model`, a network and simple models are tried, and what is best on the validation
    events is kept: one of them, or both together. `recipe` names the settings that you leave open;
    the default one follows the data and the `effort`. `seeds` is by default several where that
    costs little.

    Settings are mappings or configurations, such as `SASRecConfig(dim=32)`. Unknown ones raise
    before any data is read. A `TrainingConfig` is used as it is. `data` may be a function that
    reads it. `init_from` are runs of other models on the same data and split whose weights
    initialize this one.

    Seeds train together, as many as memory holds unless `seeds_at_once` says how many. A seed that
    diverges is left out of the run with a warning. If training is interrupted, the same call with
    the same `out` resumes it and ends with the same bits. If another process writes to `out`, it
    raises `BusyError`. At the time `until`, by `time.monotonic()`, it stops with `OutOfTime`.

    `calibrate` fits a calibrator of reasons on worlds like the data, after the training and in at
    most `calibrate_minutes`, by default an hour. It is kept if it is better than the default one.
    """
    asked = Asked.of(model, recipe, effort, model_settings, training, seeds, device)
    if seeds_at_once is not None and seeds_at_once < 1:
        raise InputError("seeds_at_once must be at least 1.")
    split = split.lower()
    spec = asked.spec
    if spec.known_users_only and split == "user-holdout":
        raise InputError(
            f"{asked.model} only knows the users it was trained on, and a user-holdout split tests "
            "it on others. Choose split='last-two', or a model that reads histories."
        )
    check_init_from(asked.model, init_from)
    check_device(device)
    calibrating = None
    if calibrate or calibrate_minutes is not None:
        calibrating = _calibrating(asked, calibrate, calibrate_minutes, until, show_progress)
    if out is None and asked.keeps_snapshots:
        raise InputError("snapshots are written to the run folder. Set out.")
    with nullcontext() if out is None else claim_folder(Path(out), overwrite) as claim:
        interactions = data() if callable(data) else load(data)
        check_same_data(init_from, interactions, split)
        if calibrating is not None:
            calibrating.check_data(interactions)
        held_out = split_by(split, interactions)
        plan = asked.plan(held_out)
        training_config, settings, seeds = plan.training, plan.settings, plan.seeds
        # So that every protocol of such a run says it.
        held_out = replace(held_out, protocol=held_out.protocol + training_config.selection_note)
        model = asked.model
        described = {
            **asdict(training_config),
            "recipe": asked.recipe,
            "notes": list(plan.notes),
            "searches": asked.searches,
            "effort": asked.effort,
            "split": split,
            "init_from": [_fingerprint(run) for run in init_from],
            "protocol": held_out.protocol,
            "device": device,
            "threads": torch.get_num_threads(),
        }
        checkpoints = None
        if out is not None and claim is not None:
            everything = {"model": model, **settings, **described, **_environment(interactions)}
            more = {} if calibrating is None else {"calibrate": True}
            task = _checksum({**everything, "seeds": seeds, **more})
            if claim.finished and claim.left_task == task:
                with suppress(RunError):  # somebody may have changed it since
                    return _finished(claim, Path(out), interactions, device)
            check_can_write(Path(out), overwrite)
            claim.record(task=task)
            checkpoints = CheckpointFolder(Path(out), everything, overwrite)
        try:
            trained = fit_seeds(
                held_out,
                model,
                settings,
                training_config,
                range(seeds),
                device,
                show_progress=show_progress,
                checkpoints=checkpoints,
                at_once=seeds_at_once,
                until=until,
                init_from=init_from,
            )
        finally:
            if checkpoints is not None:
                checkpoints.remove_if_empty()
        if spec.closed_form:  # fitting decides how many weights there are
            settings = asdict(next(iter(trained.values())).model.config)  # type: ignore[call-overload]
        if diverged := [seed for seed in range(seeds) if seed not in trained]:
            warnings.warn(
                f"Training of seed {', '.join(map(str, diverged))} diverged; the run has the other "
                f"{len(trained)}. Lower learning_rate or set clip to keep them all.",
                stacklevel=2,
            )
        run = Run(
            model=model,
            model_settings=settings,
            training=described,
            data=describe(interactions),
            catalog=interactions.catalog,
            models={seed: one.model for seed, one in trained.items()},
            metrics={seed: _course(one) for seed, one in trained.items()},
            loaded=interactions,
        )
        if asked.searches:
            run = choose(run, held_out, show_progress)
        run = with_accuracy(run, held_out, show_progress)
        if calibrating is not None:
            run = calibrating.complete(run)
        if out is None or checkpoints is None:
            return run
        if run.model == model:  # the search may have kept a simple one instead
            kept = {seed: snapshot_files(checkpoints.snapshots(seed)) for seed in trained}
            run = replace(run, snapshots=kept)
        saved = run.save(out, overwrite)
        checkpoints.remove()
        return saved


def _calibrating(
    asked: Asked, calibrate: bool, minutes: float | None, until: float | None, show_progress: bool
) -> Calibrating:
    """Return the calibration that was asked for, if the model can have one."""
    from whence.reasons.calibration import MINUTES, Calibrating

    if not calibrate:
        raise InputError(
            "calibrate_minutes limits how long a calibration takes. Add --calibrate (in Python "
            "calibrate=True)."
        )
    given = MINUTES if minutes is None else minutes
    found = Calibrating(given, asked.device, until, show_progress)
    settings = asked.resolve(NOMINAL).settings
    counts = Counts(items=NOMINAL.items, users=NOMINAL.items)
    found.check_model(build_model(asked.model, settings, counts, torch.Generator()), asked.model)
    return found


def _finished(claim: Lock, out: Path, interactions: Interactions, device: str) -> Run:
    """Return the run of a process that was killed after it had written it, and tidy up."""
    run = replace(open_run(out, device), loaded=interactions)
    keep_copy(interactions)
    shutil.rmtree(checkpoint_folder(out), ignore_errors=True)
    claim.finished = False
    return run


def _checksum(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def check_init_from(model: str, runs: Sequence[Run]) -> None:
    """Refuse runs that cannot initialize the model."""
    if not runs:
        return
    wanted = model_spec(model).init_from
    given = tuple(run.model for run in runs)
    if not wanted:
        raise InputError(f"No other model can initialize {model}. Leave out init_from.")
    if sorted(given) != sorted(wanted):
        raise InputError(
            f"{model} is initialized from runs of {' and '.join(wanted)}, not of "
            f"{' and '.join(given)}."
        )


def check_same_data(runs: Sequence[Run], interactions: Interactions, split: str) -> None:
    """Refuse runs that were trained on other items, or on what is held out here."""
    for run in runs:
        if run.data["hash"] != interactions.content_hash:
            raise InputError(
                f"The {run.model} run of init_from was trained on other data. Train it on the "
                "same data."
            )
        if run.training["split"] != split:
            raise InputError(
                f"The {run.model} run of init_from was trained with the split "
                f"{run.training['split']} and may know what {split} holds out. Train it with the "
                "same split."
            )


def _fingerprint(run: Run) -> dict[str, Any]:
    """Return the settings that determine a run's weights."""
    return {"model": run.model, "data": run.data["hash"], **run.training, **run.model_settings}


def _environment(interactions: Interactions) -> dict[str, str]:
    """Return what else must be equal to resume a training."""
    return {
        "data": interactions.content_hash,
        VERSION: whence.__version__,
        "PyTorch version": torch.__version__,
    }


def _course(trained: TrainedRecommender) -> dict[str, Any]:
    """Return the course of a training."""
    return {
        "steps": len(trained.losses),
        "kept_step": trained.kept_step,
        "final_loss": trained.losses[-1] if trained.losses else None,
        "validations": [[step, value] for step, value in trained.validations.items()],
    }


def split_settings(
    model: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide settings into those of the model and those of training."""
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
    """Return what a run records about its data."""
    return {
        "origin": dict(interactions.origin),
        "hash": interactions.content_hash,
        "users": interactions.user_count,
        "items": interactions.item_count,
        "events": len(interactions),
        "verb": interactions.verb,
        "event_hash": interactions.event_hash,
    }
