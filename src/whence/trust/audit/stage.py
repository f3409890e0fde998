"""The stages of an audit, by name, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whence.capabilities import missing
from whence.contract import offers
from whence.errors import InputError, WhenceError, did_you_mean
from whence.models.base import has_reasons, no_history
from whence.trust.accuracy.accuracy_finding import accuracy
from whence.trust.agreement.agreement_finding import agreement
from whence.trust.audit.context import AuditContext
from whence.trust.audit.finding import Finding
from whence.trust.calibration.calibration_finding import calibration
from whence.trust.faithfulness.faithfulness_finding import faithfulness
from whence.trust.learned_finding import learned
from whence.trust.permutation.permutation_finding import permutation
from whence.trust.popularity import popularity
from whence.trust.stability.stability_finding import stability
from whence.trust.truth.truth_finding import likeness


@dataclass(frozen=True)
class Stage:
    """One question, and what it takes to answer it."""

    title: str
    question: str
    """That can be answered with yes, partly or no."""
    find: Callable[[AuditContext], Finding]
    needs: tuple[str, ...] = ()
    """Capabilities of the model."""
    history: bool = False
    """Whether it speaks of the items of a history, which some models do not read."""
    reasons: bool = False
    """Whether it asks explainers, who need items of a history or groups of features."""
    chances: bool = False
    """Whether it asks how sure the model is."""
    seeds: int = 1
    """How many the run must have."""
    data: bool = True
    """Whether it needs the data that the run was trained on."""

    def obstacle(self, audited: AuditContext) -> str | None:
        """Why it cannot be answered here, in a sentence; nothing if it can."""
        model = audited.model
        lacks_items = self.history and not model.reads_history
        if lacks_items or (self.reasons and not has_reasons(model)):
            return no_history(model, f"'{self.title}'")
        for capability in self.needs:
            if not offers(model, capability):
                return str(missing(model, capability, f"'{self.title}'"))
        if self.chances and not model.predicts_probabilities:
            return (
                f"{type(model).__name__} foretells ratings and no probabilities, so that "
                f"'{self.title}' cannot ask how sure it is; train a model of classes for that."
            )
        count = len(audited.run.models)
        if count < self.seeds:
            return (
                f"This needs at least {self.seeds} seeds, and the run has {count}; train with "
                f"--seeds {self.seeds} or more."
            )
        try:
            if self.data:
                audited.require_events()
        except WhenceError as problem:
            return str(problem)
        return None


STAGES: dict[str, Stage] = {
    "accuracy": Stage("Accuracy", "Is the model any good?", accuracy, data=False),
    "calibration": Stage(
        "Calibration", "When it is sure, is it right?", calibration, needs=("score",), chances=True
    ),
    "learned": Stage(
        "What it learned", "Does it put those near each other that are alike?", learned
    ),
    "likeness": Stage(
        "True reasons",
        "Do explainers find the true reason, where it is known?",
        likeness,
        needs=("parts", "score"),
        history=True,
    ),
    "faithfulness": Stage(
        "Faithfulness",
        "Do the recommendations change without what is called important?",
        faithfulness,
        needs=("parts", "score"),
        reasons=True,
    ),
    "agreement": Stage(
        "Agreement",
        "Do the explainers agree with each other?",
        agreement,
        needs=("parts", "score"),
        reasons=True,
    ),
    "popularity": Stage(
        "Popularity",
        "Do the reasons name more than what is popular?",
        popularity,
        needs=("parts", "score"),
        history=True,
    ),
    "stability": Stage(
        "Stability",
        "Trained again, would it say the same, for the same reasons?",
        stability,
        needs=("parts", "score"),
        seeds=3,
    ),
    "permutation": Stage(
        "Attention",
        "Does it matter which items get the attention?",
        permutation,
        needs=("parts", "score", "attentions"),
    ),
}


def chosen_stages(names: Sequence[str] | None) -> dict[str, Stage]:
    """Those of these names, or all, in the order of the registry."""
    for name in names or ():
        if name not in STAGES:
            raise InputError(f"An audit has no stage '{name}': {did_you_mean(name, STAGES)}")
    return {name: stage for name, stage in STAGES.items() if names is None or name in names}
