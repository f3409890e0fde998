"""Skip networks under every method, compared with their attributions and with hidden features."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from whence.contract import ALL
from whence.errors import CapabilityError, InputError
from whence.experts import SequentialModel
from whence.explainers import explain_batch
from whence.trust.agreement.rank_agreement import agreement
from whence.trust.faithfulness.deletion import deletion_curves
from whence_studies.sessions import ListeningConfig, read_tracks, write_sessions
from whence_studies.sessions.schema import GROUPS, KNOWN_SPANS, UPCOMING_SPANS
from whence_studies.sessions.session_batches import ABSENT, SessionBatch, batches
from whence_studies.skips import (
    EXPERTS,
    SKIP,
    NetworkConfig,
    attribute_skips,
    explainable_skips,
    make_network,
    predict_skips,
)
from whence_studies.skips.networks import NetworkKind

NAMES = tuple(GROUPS)
INTERPRETABLE: tuple[NetworkKind, ...] = ("interpretable gru", "interpretable transformer")
EVERY: tuple[NetworkKind, ...] = (*INTERPRETABLE, "ordinary gru", "ordinary transformer")
METHODS = ("leave-one-out", "shapley", "gradient-input", "integrated-gradients", "random")


def network_of(kind: NetworkKind) -> SequentialModel:
    """Untrained, with scaled layers so that outputs depend on the inputs."""
    network = make_network(NetworkConfig(kind, dim=4, n_heads=2, n_layers=1), 0)
    gru = kind.endswith("gru")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.mul_(0.3 if gru and ".reader." in name else 2)
    return network.eval()


@pytest.fixture(scope="module")
def all_sessions(tmp_path_factory: pytest.TempPathFactory) -> SessionBatch:
    folder = tmp_path_factory.mktemp("explained") / "s"
    files = write_sessions(folder, ListeningConfig(sessions=40, tracks=60, seed=3))
    (batch,) = batches(files, read_tracks(files.tracks), 40)
    return batch


@pytest.fixture(scope="module")
def sessions(all_sessions: SessionBatch) -> SessionBatch:
    """A few sessions, some with empty slots."""
    some = all_sessions[:3]
    assert not some.upcoming_mask.all()
    return some


def skips(count: int) -> torch.Tensor:
    return torch.full((count,), SKIP)


def hidden(
    sessions: SessionBatch, every: SessionBatch, names: Collection[str], share: float = 0.0
) -> SessionBatch:
    """Replace these groups by the mean over all tracks, or interpolate towards it."""
    known, upcoming = sessions.known.copy(), sessions.upcoming.copy()
    for rows, spans, there, source, source_there in (
        (known, KNOWN_SPANS, sessions.known_mask, every.known, every.known_mask),
        (upcoming, UPCOMING_SPANS, sessions.upcoming_mask, every.upcoming, every.upcoming_mask),
    ):
        for name in set(names) & set(spans):
            mean = source[source_there].astype(np.float64).mean(axis=0)[spans[name]]
            for session, slot in zip(*np.nonzero(there), strict=True):
                own = rows[session, slot, spans[name]]
                rows[session, slot, spans[name]] = mean + share * (own - mean)
    return replace(sessions, known=known, upcoming=upcoming)


def logits(network: SequentialModel, sessions: SessionBatch) -> npt.NDArray[np.float64]:
    """Return the logits of all tracks, `[N]`."""
    return predict_skips(network, sessions)[sessions.upcoming_mask].astype(np.float64)


@pytest.mark.parametrize("kind", INTERPRETABLE)
def test_expert_explanations_match_the_network(
    kind: NetworkKind, sessions: SessionBatch, all_sessions: SessionBatch
) -> None:
    network = network_of(kind)
    model = explainable_skips(network, all_sessions)
    batch = model.make_cases(sessions)
    found = explain_batch(model, batch, skips(len(batch)), "experts")
    expected = np.zeros((len(batch), len(NAMES)))
    selected = attribute_skips(network, sessions).selected
    for row, alpha in zip(expected, selected, strict=True):
        for weight, subset in zip(alpha, EXPERTS.subsets, strict=True):
            for name in subset.groups:
                row[NAMES.index(name)] += weight / len(subset.groups) / alpha.sum()
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert np.ptp(expected, axis=0).max() > 0.05, "cases differ"
    assert [found.part_name(0, slot) for slot in range(len(NAMES))] == list(NAMES)


@pytest.mark.parametrize("kind", EVERY)
def test_scores_without_groups_by_hand(
    kind: NetworkKind, sessions: SessionBatch, all_sessions: SessionBatch
) -> None:
    network = network_of(kind)
    model = explainable_skips(network, all_sessions)
    batch = model.make_cases(sessions)
    found = explain_batch(model, batch, skips(len(batch)), "leave-one-out")
    full = logits(network, sessions)
    np.testing.assert_allclose(found.full_score, full, atol=1e-5)
    nothing = logits(network, hidden(sessions, all_sessions, NAMES))
    np.testing.assert_allclose(found.empty_score, nothing, atol=1e-4)
    for number, name in enumerate(NAMES):
        lost = full - logits(network, hidden(sessions, all_sessions, [name]))
        np.testing.assert_allclose(found.scores[:, number], lost, atol=1e-4)
        assert np.abs(lost).max() > 1e-3, f"{name} matters"
    both = model.score(batch, ALL)
    torch.testing.assert_close(both[:, 0], -both[:, SKIP])


@pytest.mark.parametrize("kind", ["interpretable gru", "ordinary transformer"])
def test_shapley_values_match_all_orders(
    kind: NetworkKind, sessions: SessionBatch, all_sessions: SessionBatch
) -> None:
    network, few = network_of(kind), sessions[:1]
    model = explainable_skips(network, all_sessions)
    batch = model.make_cases(few)
    found = explain_batch(model, batch, skips(len(batch)), "shapley")
    np.testing.assert_allclose(
        found.scores.sum(axis=1), found.full_score - found.empty_score, atol=1e-5
    )
    worth = {
        shown: logits(network, hidden(few, all_sessions, set(NAMES) - shown))
        for size in range(len(NAMES) + 1)
        for shown in map(frozenset, combinations(NAMES, size))
    }
    for number, name in enumerate(NAMES):
        gains = [
            worth[frozenset(order[: order.index(name) + 1])]
            - worth[frozenset(order[: order.index(name)])]
            for order in permutations(NAMES)
        ]
        np.testing.assert_allclose(found.scores[:, number], np.mean(gains, axis=0), atol=1e-4)
    assert found.error is not None
    assert not found.error.any(), "all coalitions are upcoming"


@pytest.mark.parametrize("kind", INTERPRETABLE)
def test_gradient_input_is_the_slope_towards_the_averages(
    kind: NetworkKind, sessions: SessionBatch, all_sessions: SessionBatch
) -> None:
    """Central differences in double precision."""
    network = network_of(kind).double()
    precise = replace(
        sessions,
        known=sessions.known.astype(np.float64),
        upcoming=sessions.upcoming.astype(np.float64),
    )
    model = explainable_skips(network, all_sessions)
    batch = model.make_cases(precise)
    found = explain_batch(model, batch, skips(len(batch)), "gradient-input")
    step = 1e-4
    for number, name in enumerate(NAMES):
        after, before = (
            logits(network, hidden(precise, all_sessions, [name], share))
            for share in (1 + step, 1 - step)
        )
        slope = (after - before) / (2 * step)
        np.testing.assert_allclose(found.scores[:, number], slope, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("method", ["experts", *METHODS])
def test_a_batch_equals_its_loop(
    kind: NetworkKind, method: str, sessions: SessionBatch, all_sessions: SessionBatch
) -> None:
    model = explainable_skips(network_of(kind), all_sessions)
    batch = model.make_cases(sessions)[::7]
    if method == "experts" and kind not in INTERPRETABLE:
        message = "SkipModel has no 'selections', which experts needs"
        with pytest.raises(CapabilityError, match=message):
            explain_batch(model, batch, skips(len(batch)), method)
        return
    together = explain_batch(model, batch, skips(len(batch)), method)
    alone = [explain_batch(model, one[None], skips(1), method) for one in batch]
    looped = np.concatenate([one.scores for one in alone])
    np.testing.assert_allclose(together.scores, looped, atol=1e-5)
    assert together.removal == "averages"
    assert len(np.unique(together.scores)) > len(batch), "cases and parts differ"


@pytest.mark.parametrize("kind", ["interpretable gru", "ordinary gru"])
def test_explanations_name_the_features(
    kind: NetworkKind,
    sessions: SessionBatch,
    all_sessions: SessionBatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As shown and as saved, for every case."""
    model = explainable_skips(network_of(kind), all_sessions)
    batch = model.make_cases(sessions)[:2]
    found = explain_batch(model, batch, skips(2), "leave-one-out")
    for error in json.loads(found.to_json())["cases"]:
        assert tuple(part["label"] for part in error["parts"]) == NAMES
    found[1].show()
    printed = capsys.readouterr().out
    strongest = [NAMES[slot] for slot in found.strongest(1)]
    assert [line.split()[0] for line in printed.splitlines() if "0." in line] == strongest


def test_memory_limit_does_not_change_scores(
    sessions: SessionBatch, all_sessions: SessionBatch
) -> None:
    model = explainable_skips(network_of("interpretable gru"), all_sessions)
    batch = model.make_cases(sessions)
    usual, slowly = (
        explain_batch(model, batch, skips(len(batch)), "shapley", memory=memory)
        for memory in (None, 5 * 2**22)
    )
    np.testing.assert_allclose(usual.scores, slowly.scores, atol=1e-5)


def test_memory_limit_bounds_the_rows(
    sessions: SessionBatch, all_sessions: SessionBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a thousand numbers takes as much memory as a thousand slots, not as five."""
    model = explainable_skips(network_of("interpretable gru"), all_sessions)
    batch, seen = model.make_cases(sessions)[:4], []
    scores = model.network.scores

    def watched(known: torch.Tensor, upcoming: torch.Tensor) -> torch.Tensor:
        seen.append(len(known))
        return scores(known, upcoming)

    monkeypatch.setattr(model.network, "scores", watched)
    coalitions = torch.eye(len(NAMES), dtype=torch.bool)
    memory = 3 * 4096 * batch.shape[1] + 4096
    model.score_coalitions(batch, skips(4), coalitions, memory=memory)
    assert max(seen) == 3
    assert sum(seen) == 4 * len(NAMES)


def test_trust_measures_apply(sessions: SessionBatch, all_sessions: SessionBatch) -> None:
    """About this track, not about the others of its session."""
    model = explainable_skips(network_of("interpretable transformer"), all_sessions)
    batch = model.make_cases(sessions)
    experts, shapley = (
        explain_batch(model, batch, skips(len(batch)), method) for method in ("experts", "shapley")
    )
    assert -1 <= agreement(experts, shapley).value <= 1
    curves = deletion_curves(model, batch, [experts, "random order", "greedy oracle"])
    area = {name: float(np.nanmean(one.area())) for name, one in curves.items()}
    assert area["greedy oracle"] > area["random order"]


def test_empty_slots_stay_empty(
    sessions: SessionBatch, all_sessions: SessionBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = explainable_skips(network_of("ordinary gru"), all_sessions)
    batch = model.make_cases(sessions)
    seen: list[torch.Tensor] = []

    def watched(known: torch.Tensor, upcoming: torch.Tensor) -> torch.Tensor:
        seen.extend((known, upcoming))
        return torch.zeros(*upcoming.shape[:2], 2)

    monkeypatch.setattr(model.network, "scores", watched)
    model.score(batch, ALL, present=torch.zeros_like(model.parts(batch)))
    session = np.nonzero(sessions.upcoming_mask)[0]
    for rows, there in zip(seen, (sessions.known_mask, sessions.upcoming_mask), strict=True):
        assert (rows[~torch.from_numpy(there[session])] == ABSENT).all()
        assert (rows[torch.from_numpy(there[session])] != ABSENT).all()


def test_invalid_cases_are_rejected(sessions: SessionBatch) -> None:
    network = network_of("ordinary gru")
    with pytest.raises(InputError, match="Pass at least one session"):
        explainable_skips(network, sessions[:0])
    model = explainable_skips(network, sessions)
    with pytest.raises(InputError, match="this row has 1040"):
        explain_batch(model, model.make_cases(sessions)[:2, 1:], skips(2), "leave-one-out")
