"""Measures of attributions, compared with loops and examples by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from whence.errors import InputError
from whence_studies.sessions import (
    Cause,
    ListeningConfig,
    batches,
    read_tracks,
    score_skips,
    write_sessions,
)
from whence_studies.skips import (
    EVIDENCE,
    EXPERT_OF,
    EXPERTS,
    NetworkConfig,
    SkipAttribution,
    cause_accuracy,
    cause_seen,
    concat_attributions,
    evaluate,
    make_network,
    mean_attributions,
    most_selected_shares,
    predict_skips,
    selected_by_cause,
)


def selecting(*experts: str, session: tuple[int, ...], causes: str) -> SkipAttribution:
    """One track each: half of the attribution to the named expert, the rest shared."""
    selected = np.full((len(experts), len(EXPERTS)), 0.5 / 7, dtype=np.float32)
    for row, name in zip(selected, experts, strict=True):
        row[EXPERTS.index(name)] = 0.5
    letters = {"P": Cause.PERSISTENCE, "C": Cause.CONTEXT, "M": Cause.MUSIC}
    letters |= {"U": Cause.POPULARITY, "?": Cause.CHANCE}
    known = np.array([letters[one] for one in causes], dtype=np.int8)
    return SkipAttribution(selected, np.array(session), known)


def test_simplest_expert_of_each_cause() -> None:
    named = {cause.word: EXPERTS.names[expert] for cause, expert in EXPERT_OF.items()}
    assert named == {"persistence": "S2", "context": "S1", "music": "S4", "popularity": "S3"}
    shown = [name for names in EVIDENCE.values() for name in names]
    assert sorted(shown) == sorted(EXPERTS.names), "each is shown once"


def test_by_hand() -> None:
    """Persistence 1 of 2, context 1 of 1, music 0 of 1; chance does not count."""
    found = selecting("S2", "S5", "S1", "S8", "S3", session=(0, 0, 0, 1, 1), causes="PPCM?")
    values = {name: one.value for name, one in cause_accuracy(found).items()}
    assert values == {
        "attribution accuracy": 2 / 4,
        "attribution accuracy, mean over causes": pytest.approx((1 / 2 + 1 + 0) / 3),
        "persistence": 1 / 2,
        "context": 1.0,
        "music": 0.0,
    }
    assert cause_accuracy(found)["attribution accuracy"].n == 4
    shares = {name: one.value for name, one in most_selected_shares(found).items()}
    named = ("S1", "S2", "S3", "S5", "S8")
    assert shares == dict.fromkeys(EXPERTS.names, 0.0) | dict.fromkeys(named, 1 / 5)
    table = selected_by_cause(found)
    assert table[Cause.PERSISTENCE, EXPERTS.index("S5")] == 0.5
    assert table.sum(axis=1).tolist() == [1, 1, 1, 0, 1]


def test_which_experts_see_a_cause() -> None:
    """Persistence 1 of 2, context 1 of 1, music 1 of 2, popularity 0 of 1."""
    found = selecting(
        *("S7", "S6", "S5", "S8", "S7", "S4", "S8"), session=(0, 0, 0, 1, 1, 1, 1), causes="PPCMMU?"
    )
    values = {name: one.value for name, one in cause_seen(found).items()}
    assert values == {
        "cause seen": 3 / 6,
        "cause seen, mean over causes": pytest.approx((1 / 2 + 1 + 1 / 2 + 0) / 4),
        "cause seen: persistence": 1 / 2,
        "cause seen: context": 1.0,
        "cause seen: music": 1 / 2,
        "cause seen: popularity": 0.0,
    }


def test_mean_attributions_average_over_sessions() -> None:
    selected = np.zeros((3, len(EXPERTS)), dtype=np.float32)
    selected[0, 0], selected[1, :2], selected[2, 1] = 0.1, 0.3, 0.9
    found = SkipAttribution(selected, np.array([0, 0, 1]))
    means = {name: one.value for name, one in mean_attributions(found).items()}
    assert means["S1"] == pytest.approx((0.75 + 0) / 2)
    assert means["S2"] == pytest.approx((0.25 + 1) / 2)
    assert sum(means.values()) == pytest.approx(1)


def test_intervals_resample_whole_sessions() -> None:
    """Compared with a plain bootstrap over sessions."""
    rng = np.random.default_rng(0)
    session = np.repeat(np.arange(200), rng.integers(5, 11, 200))
    causes = rng.choice(
        [Cause.PERSISTENCE, Cause.MUSIC, Cause.CHANCE], len(session), p=(0.6, 0.3, 0.1)
    )
    good = rng.choice([0.2, 0.9], 200)[session] > rng.random(len(session))
    needed = np.array([EXPERT_OF.get(Cause(one), 0) for one in causes])
    first = np.where(good, needed, EXPERTS.index("S8"))
    found = SkipAttribution(np.eye(8, dtype=np.float32)[first], session, causes.astype(np.int8))
    drawn = []
    for _ in range(400):
        rows = np.concatenate([np.nonzero(session == one)[0] for one in rng.integers(0, 200, 200)])
        hit = [good[rows][causes[rows] == cause].mean() for cause in (0, 2)]
        drawn.append((good[rows][causes[rows] != Cause.CHANCE].mean(), np.mean(hit)))
    slowly = np.percentile(drawn, [2.5, 97.5], axis=0).T
    measured = list(cause_accuracy(found).values())
    np.testing.assert_allclose([one.interval for one in measured[:2]], slowly, atol=0.012)


def test_concatenated_attributions_equal_one_batch() -> None:
    whole = selecting("S2", "S5", "S1", session=(0, 0, 1), causes="PPC")
    parts = [
        selecting("S2", "S5", session=(0, 0), causes="PP"),
        selecting("S1", session=(0,), causes="C"),
    ]
    joined = concat_attributions(parts)
    assert np.array_equal(joined.session, whole.session)
    assert cause_accuracy(joined) == cause_accuracy(whole)


def test_invalid_attributions_are_rejected() -> None:
    found = selecting("S2", session=(0,), causes="?")
    with pytest.raises(InputError, match="no cause can be named"):
        cause_accuracy(found)
    with pytest.raises(InputError, match="are unknown"):
        cause_accuracy(SkipAttribution(found.selected, found.session))
    with pytest.raises(InputError, match="no attributions"):
        concat_attributions([])


def test_evaluating_files_equals_evaluating_batches(tmp_path: Path) -> None:
    files = write_sessions(tmp_path / "s", ListeningConfig(sessions=60, tracks=80))
    tracks = read_tracks(files.tracks)
    model = make_network(NetworkConfig("interpretable gru", dim=2), 0)
    found = evaluate(model, files, tracks, attributed=25, batch_size=20)
    (whole,) = batches(files, tracks, 60)
    expected = score_skips(predict_skips(model, whole) > 0, whole)
    assert found.scores.measures() == expected.measures()
    assert found.attribution is not None
    assert found.attribution.sessions == 25
    assert len(found.attribution) == whole.upcoming_mask[:25].sum()
    there = whole.upcoming_mask[:25]
    assert found.attribution.causes is not None
    assert whole.causes is not None
    assert np.array_equal(found.attribution.causes, whole.causes[:25][there])
    plain = make_network(NetworkConfig("ordinary gru", dim=2), 0)
    assert evaluate(plain, files, tracks).attribution is None
