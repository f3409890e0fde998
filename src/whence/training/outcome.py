"""What a training came to: what was chosen, how good it is, and how it compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from whence.data.splits import Split, split_by
from whence.measure import Measure
from whence.models import MODELS
from whence.models.mean_rating import MEAN_RATING, MeanRating
from whence.run import Run
from whence.training.comparison import Comparison, compare_with_simple
from whence.training.evaluation import Evaluation

TOGETHER: Final = "together"
"""What tables call all models of a run."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A run that was just trained, compared with the simple models."""

    run: Run
    comparison: Comparison | None
    """On the test events, if there are any."""
    baselines: Mapping[str, Mapping[str, Measure]]
    """The accuracy of the simple models on the test events."""

    @staticmethod
    def of(run: Run) -> Outcome:
        """Compare a run with the simple models on its test events."""
        split = split_by(run.training["split"], run.interactions)
        found = compare_with_simple(run.whole, run.model, split, "test", everything=True)
        if found is None:
            return Outcome(run, None, {})
        baselines = {name: one.measures() for name, one in found.simple.items()}
        if not run.first.predicts_probabilities:
            baselines[MEAN_RATING] = _mean_rating(split)
        return Outcome(run, found, baselines)

    @property
    def name(self) -> str:
        """What to call the recommender in tables."""
        return self.run.model if self.run.whole is self.run.first else TOGETHER

    @property
    def is_simple(self) -> bool:
        """Whether the run recommends with one of the simple models alone."""
        return self.run.model in MODELS.tagged("simple")

    @property
    def tried(self) -> Mapping[str, float]:
        """The metric of what was tried on the validation events, the best first."""
        tried: Mapping[str, float] = self.run.training.get("tried", {})
        return {name: tried[name] for name in sorted(tried, key=lambda one: -tried[one])}

    @property
    def chosen(self) -> str | None:
        """Which of them was kept."""
        return self.run.training.get("chosen")

    @property
    def calibration(self) -> Mapping[str, Any] | None:
        """What came of the calibration of the reasons, if there was one."""
        return self.run.training.get("calibration")

    @property
    def closing(self) -> str:
        """One line: how the run compares on the test events, and what to try."""
        if self.comparison is None:
            return "The split holds out no test events, so nothing says how good this run is."
        said = self.comparison.sentence
        if self.is_simple and self.tried:
            return (
                f"Recommended: {self.run.model}, a simple model. Nothing else did better on the "
                f"validation events. {said}"
            )
        return said if self.comparison.wins else f"{said} {self._advice(self.comparison.best)}"

    def _advice(self, best: str) -> str:
        training = self.run.training
        if not training.get("searches"):
            return f"Try --model {best}, or the defaults, which try all and keep the best."
        if not self.tried or training.get("effort") == "best":
            return f"Try --model {best}."
        return f"Try --effort best, or --model {best}."

    def lines(self) -> Iterator[str]:
        """Yield what was chosen by the data, and which seeds stopped early."""
        training = self.run.training
        yield from training.get("notes", ())
        for seed, found in self.run.metrics.items():
            steps, kept = found["steps"], found["kept_step"]
            if training["patience"] and kept < steps:
                ended = "stopped after" if steps < training["steps"] else "took"
                yield f"Seed {seed} {ended} {steps} steps and kept the weights of step {kept}."
        if self.calibration is not None:
            yield self.calibration["why"]

    def as_dict(self) -> dict[str, Any]:
        """Return the same facts as plain types."""
        run = self.run
        return {
            "recommends": run.members,
            "notes": list(run.training.get("notes", ())),
            "tried": dict(self.tried),
            "chosen": self.chosen,
            "metrics": {str(seed): found for seed, found in run.metrics.items()},
            "together": dict(run.accuracy),
            "baselines": {
                name: {measure: one.as_dict() for measure, one in found.items()}
                for name, found in self.baselines.items()
            },
            "comparison": None if self.comparison is None else self.comparison.as_dict(),
            "calibration": self.calibration,
            "closing": self.closing,
        }


def _mean_rating(split: Split) -> dict[str, Measure]:
    """Return the accuracy of the mean rating, for models that predict ratings."""
    return Evaluation(split, "test", max_len=1).rated(MeanRating(split)).measures()
