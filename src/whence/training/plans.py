"""What somebody asked to train, and the complete settings that it comes to on some data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from whence.config import build, convert, require_choice
from whence.data.splits import Split
from whence.errors import InputError
from whence.models import MODELS, ModelSpec
from whence.training.config import TrainingConfig, check_precision
from whence.training.notes import loss_note, seeds_note, stopping_note
from whence.training.recipes import (
    DEFAULT,
    RECIPES,
    DataShape,
    Effort,
    default_seeds,
    recipe_settings,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NETWORK: Final = "sasrec"
"""The network that is tried if no model is named."""
SCHEDULE: Final = {"steps", "epochs", "validate_every", "patience", "snapshots", "validate_on"}
"""The settings that decide when a training ends."""
NOMINAL: Final = DataShape(items=100, events=1_000, mean_length=10, long_length=20, validation=100)
"""Data to check settings with, before the real ones are read."""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the training of a model, but for the data."""

    settings: dict[str, Any]
    training: TrainingConfig
    seeds: int
    notes: tuple[str, ...] = ()
    """What the default recipe chose, and why."""


@dataclass(frozen=True)
class Asked:
    """A training as it was asked for; what was left open follows the data."""

    model: str
    searches: bool
    """Whether simple models are tried, too, because no model was named."""
    recipe: str
    effort: Effort
    settings: Mapping[str, Any]
    """Those that were given."""
    training: Mapping[str, Any]
    complete: bool
    """Whether `training` is a whole configuration, to be used as it is."""
    seeds: int | None
    device: str

    @staticmethod
    def of(
        model: str | None,
        recipe: str,
        effort: Effort,
        settings: Mapping[str, Any] | DataclassInstance | None,
        training: Mapping[str, Any] | TrainingConfig | None,
        seeds: int | None,
        device: str,
    ) -> Asked:
        """Check what can be checked without the data."""
        require_choice("effort", effort, Effort)
        if seeds is not None and seeds < 1:
            raise InputError("seeds must be at least 1.")
        recipe = RECIPES.name_of(recipe)
        name = MODELS.name_of(model or default_model(recipe))
        asked = Asked(
            name,
            model is None and recipe == DEFAULT,
            recipe,
            effort,
            _given(settings, MODELS[name].config),
            _given(training, TrainingConfig),
            isinstance(training, TrainingConfig),
            seeds,
            device,
        )
        if asked.spec.closed_form:
            asked.check_closed_form()
        asked.check_effort()
        check_precision(asked.resolve(NOMINAL).training, device)
        return asked

    @property
    def spec(self) -> ModelSpec:
        """The model in the registry."""
        return MODELS[self.model]

    @property
    def keeps_snapshots(self) -> bool:
        """Whether snapshots are asked for."""
        return bool(self.training.get("snapshots"))

    def plan(self, split: Split) -> Plan:
        """Return the complete settings for these data."""
        plan = self.resolve(DataShape.of(split))
        needed = self.spec.sizes_in_data
        if needed is not None:
            grown = {
                name: max(least, plan.settings[name])
                for name, least in needed(split.interactions).items()
                if name not in self.settings
            }
            plan.settings.update(grown)
        return plan

    def resolve(self, shape: DataShape) -> Plan:
        """Return the complete settings for data of this shape."""
        own, training = recipe_settings(
            self.recipe,
            self.model,
            self.spec,
            shape,
            self.effort,
            self.device,
            {**self.settings, **self.training},
        )
        config = build(self.spec.config, {**own, **self.settings})
        given = with_given({} if self.complete else training, self.training)
        plan = Plan(
            asdict(config),
            build(TrainingConfig, given),
            self.seeds or self._default_seeds(shape),
        )
        if not self.follows_data:
            return plan
        return replace(plan, notes=tuple(self._notes(plan, shape)))

    @property
    def follows_data(self) -> bool:
        """Whether the default recipe chooses the settings by the data."""
        return self.recipe == DEFAULT and self.spec.follows_data

    def _default_seeds(self, shape: DataShape) -> int:
        return default_seeds(shape, self.effort, self.device) if self.follows_data else 1

    def _notes(self, plan: Plan, shape: DataShape) -> Iterator[str]:
        """Yield what was chosen, not what was given."""
        if "loss" not in self.settings:
            yield loss_note(plan.settings, plan.training, shape, self.device)
        if self.seeds is None:
            yield seeds_note(plan.seeds, shape, self.effort, self.device)
        if not self.training.keys() & SCHEDULE or not (
            shape.can_validate or plan.training.patience
        ):
            yield stopping_note(plan.training, shape)

    def check_effort(self) -> None:
        """Refuse an effort that would change nothing."""
        if self.follows_data or self.effort == "normal":
            return
        if self.recipe != DEFAULT:
            raise InputError(
                f"The settings of the recipe {self.recipe} are fixed, so an effort changes "
                "nothing. Leave out effort or the recipe."
            )
        raise InputError(f"The settings of {self.model} do not follow an effort. Leave it out.")

    def check_closed_form(self) -> None:
        """Refuse what has no meaning for a model that is computed at once."""
        if self.training:
            raise InputError(
                f"{self.model} is computed at once and has no settings of training. Leave out "
                f"{', '.join(sorted(self.training))}."
            )
        if (self.seeds or 1) > 1:
            raise InputError(
                f"{self.model} is computed without random numbers, so all {self.seeds} seeds would "
                "be equal. Train one."
            )


def default_model(recipe: str) -> str:
    """Return the model to train if none is named: the first of a paper, or the network."""
    return next(iter(RECIPES[recipe].models), NETWORK)


def _given(
    settings: Mapping[str, Any] | DataclassInstance | None, kind: type[Any]
) -> dict[str, Any]:
    """Return the settings that the user chose, as their declared types."""
    if settings is None:
        return {}
    if isinstance(settings, TrainingConfig):
        return asdict(settings)
    if not is_dataclass(settings):
        return convert(kind, settings)
    return {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if getattr(settings, field.name) != field.default
    }


def with_given(training: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training settings of a recipe, replaced by those that were given.

    What cannot go with the given ones is left out: a schedule in steps with epochs, and early
    stopping without validations or with snapshots.
    """
    left = dict(training)
    if "steps" in given:
        left.pop("epochs", None)
    if given.get("epochs"):
        left.pop("steps", None)
        if left.get("validate_every"):
            left["validate_every"] = 1
    if given.get("snapshots") or given.get("validate_every") == 0:
        left.pop("validate_every", None)
        left.pop("patience", None)
    return {**left, **given}
