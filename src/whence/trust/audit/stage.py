"""The stages of an audit: each is declared next to the function that answers its question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from whence.capabilities import missing
from whence.contract import offers
from whence.errors import WhenceError
from whence.models import model_spec
from whence.models.base import has_reasons, no_history
from whence.registry import Registry
from whence.trust.audit.context import AuditContext
from whence.trust.audit.finding import Finding


@dataclass(frozen=True)
class Stage:
    """One question, and what it takes to answer it."""

    title: str
    question: str
    """Can be answered with yes, partly or no."""
    find: Callable[[AuditContext], Finding]
    criteria: tuple[str, str, str] = ("", "", "")
    """What counts as yes, as partly and as no, for the documentation."""
    needs: tuple[str, ...] = ()
    """The capabilities that the model must offer."""
    needs_history: bool = False
    """Whether the model must read histories."""
    needs_reasons: bool = False
    """Whether explainers are used, which need items of a history or groups of features."""
    needs_probabilities: bool = False
    """Whether the model must predict probabilities."""
    min_seeds: int = 1
    """The number of seeds that the run must have."""
    needs_data: bool = True
    """Whether the data that the run was trained on must be available."""

    def needs_one_seed(self, context: AuditContext) -> bool:
        """Return whether the models of the seeds offer what the whole of them does not."""
        every = context.model_seed is None
        return every and context.run.seed_offering(self.needs) is not None

    def obstacle(self, context: AuditContext) -> str | None:
        """Return one sentence that says why the stage cannot run, or `None` if it can."""
        model, who = context.model, f"the stage '{self.title}'"
        lacks_items = self.needs_history and not model.reads_history
        if lacks_items or (self.needs_reasons and not has_reasons(model)):
            return _first_sentence(no_history(model, who))
        for capability in self.needs:
            if not offers(model, capability):
                return _first_sentence(str(missing(model, capability, who)))
        if self.needs_probabilities and not model.predicts_probabilities:
            return (
                f"{model.kind} predicts ratings and no probabilities, so {who} cannot "
                "measure its confidence; train a model of classes instead."
            )
        count = len(context.run.models)
        if count < self.min_seeds and model_spec(context.run.model).closed_form:
            return (
                f"{context.run.model} is computed without random numbers, so it is the same for "
                "every seed."
            )
        if count < self.min_seeds:
            return (
                f"This stage needs at least {self.min_seeds} seeds, and the run has {count}; "
                f"train with --seeds {self.min_seeds} or more."
            )
        try:
            if self.needs_data:
                context.require_events()
        except WhenceError as problem:
            return str(problem)
        return None


def _first_sentence(text: str) -> str:
    """Return what is wrong, without the advice that follows."""
    return f"{text.removesuffix('.').partition('. ')[0]}."


STAGES: Final[Registry[Stage]] = Registry("audit stage", package="whence.trust")
"""By name, in the order of an audit."""


def chosen_stages(names: Sequence[str] | None) -> dict[str, Stage]:
    """Return the stages with these names, or all, in the order of an audit."""
    chosen = set(STAGES) if names is None else {STAGES.name_of(name) for name in names}
    return {name: stage for name, stage in STAGES.items() if name in chosen}
