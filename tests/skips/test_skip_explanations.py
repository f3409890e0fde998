"""Skip networks under every method: against their own attributions, and features hidden by hand."""

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
from whence_studies.sessions.columns import ASKED_SPANS, GROUPS, KNOWN_SPANS
from whence_studies.sessions.halves import ABSENT, Halves
from whence_studies.sessions.session_batches import batches
from whence_studies.skips import (
    EXPERTS,
    SKIP,
    NetworkConfig,
    attribute_skips,
    explainable_skips,
    make_network,
    predict_skips,
)
from whence_studies.skips.networks import Kind

NAMES = tuple(GROUPS)
INTERPRETABLE: tuple[Kind, ...] = ("interpretable gru", "interpretable transformer")
EVERY: tuple[Kind, ...] = (*INTERPRETABLE, "ordinary gru", "ordinary transformer")
METHODS = ("leave-one-out", "shapley", "gradient-input", "integrated-gradients", "random")


def network_of(kind: Kind) -> SequentialModel:
    """Untrained, but with layers after the first that make something of what it reads."""
    network = make_network(NetworkConfig(kind, dim=4, n_heads=2, n_layers=1), 0)
    gru = kind.endswith("gru")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.mul_(0.3 if gru and ".reader." in name else 2)
    return network.eval()


@pytest.fixture(scope="module")
def all_sessions(tmp_path_factory: pytest.TempPathFactory) -> Halves:
    folder = tmp_path_factory.mktemp("explained") / "s"
    files = write_sessions(folder, ListeningConfig(sessions=40, tracks=60, seed=3))
    (halves,) = batches(files, read_tracks(files.tracks), 40)
    return halves


@pytest.fixture(scope="module")
def sessions(all_sessions: Halves) -> Halves:
    """A few, of which some leave slots empty."""
    some = all_sessions[:3]
    assert not some.asked_there.all()
    return some


def skips(count: int) -> torch.Tensor:
    return torch.full((count,), SKIP)


def hidden(sessions: Halves, every: Halves, names: Collection[str], share: float = 0.0) -> Halves:
    """These groups track by track at the mean of all, or a share of the way back from there."""
    known, asked = sessions.known.copy(), sessions.asked.copy()
    for rows, spans, there, source, source_there in (
        (known, KNOWN_SPANS, sessions.known_there, every.known, every.known_there),
        (asked, ASKED_SPANS, sessions.asked_there, every.asked, every.asked_there),
    ):
        for name in set(names) & set(spans):
            mean = source[source_there].astype(np.float64).mean(axis=0)[spans[name]]
            for session, slot in zip(*np.nonzero(there), strict=True):
                own = rows[session, slot, spans[name]]
                rows[session, slot, spans[name]] = mean + share * (own - mean)
    return replace(sessions, known=known, asked=asked)


def logits(network: SequentialModel, sessions: Halves) -> npt.NDArray[np.float64]:
    """`[N]`: of the tracks that are there."""
    return predict_skips(network, sessions)[sessions.asked_there].astype(np.float64)


@pytest.mark.parametrize("kind", INTERPRETABLE)
def test_experts_say_what_the_network_says_of_itself(
    kind: Kind, sessions: Halves, all_sessions: Halves
) -> None:
    network = network_of(kind)
    model = explainable_skips(network, all_sessions)
    batch = model.ask(sessions)
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
def test_scores_and_hiding_are_those_by_hand(
    kind: Kind, sessions: Halves, all_sessions: Halves
) -> None:
    network = network_of(kind)
    model = explainable_skips(network, all_sessions)
    batch = model.ask(sessions)
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
def test_shapley_values_are_those_of_all_orders(
    kind: Kind, sessions: Halves, all_sessions: Halves
) -> None:
    network, few = network_of(kind), sessions[:1]
    model = explainable_skips(network, all_sessions)
    batch = model.ask(few)
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
    assert not found.error.any(), "all coalitions are asked"


@pytest.mark.parametrize("kind", INTERPRETABLE)
def test_gradient_input_is_the_slope_on_the_way_to_the_averages(
    kind: Kind, sessions: Halves, all_sessions: Halves
) -> None:
    """In double precision: of steps on either side of a group's own features."""
    network = network_of(kind).double()
    precise = replace(
        sessions, known=sessions.known.astype(np.float64), asked=sessions.asked.astype(np.float64)
    )
    model = explainable_skips(network, all_sessions)
    batch = model.ask(precise)
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
    kind: Kind, method: str, sessions: Halves, all_sessions: Halves
) -> None:
    model = explainable_skips(network_of(kind), all_sessions)
    batch = model.ask(sessions)[::7]
    if method == "experts" and kind not in INTERPRETABLE:
        said = "OrdinarySkips has no 'selections', which experts needs"
        with pytest.raises(CapabilityError, match=said):
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
    kind: Kind, sessions: Halves, all_sessions: Halves, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shown and written down, of every case."""
    model = explainable_skips(network_of(kind), all_sessions)
    batch = model.ask(sessions)[:2]
    found = explain_batch(model, batch, skips(2), "leave-one-out")
    for told in json.loads(found.to_json())["cases"]:
        assert tuple(part["label"] for part in told["parts"]) == NAMES
    found[1].show()
    printed = capsys.readouterr().out
    strongest = [NAMES[slot] for slot in found.strongest(1)]
    assert [line.split()[0] for line in printed.splitlines() if "0." in line] == strongest


def test_little_memory_changes_nothing(sessions: Halves, all_sessions: Halves) -> None:
    model = explainable_skips(network_of("interpretable gru"), all_sessions)
    batch = model.ask(sessions)
    usual, slowly = (
        explain_batch(model, batch, skips(len(batch)), "shapley", memory=memory)
        for memory in (None, 5 * 2**22)
    )
    np.testing.assert_allclose(usual.scores, slowly.scores, atol=1e-5)


def test_few_rows_are_scored_at_a_time(
    sessions: Halves, all_sessions: Halves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a thousand numbers takes as much room as a thousand slots, not as five."""
    model = explainable_skips(network_of("interpretable gru"), all_sessions)
    batch, seen = model.ask(sessions)[:4], []
    scores = model.network.scores

    def watched(known: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
        seen.append(len(known))
        return scores(known, asked)

    monkeypatch.setattr(model.network, "scores", watched)
    coalitions = torch.eye(len(NAMES), dtype=torch.bool)
    memory = 3 * 4096 * batch.shape[1] + 4096
    model.score_coalitions(batch, skips(4), coalitions, memory=memory)
    assert max(seen) == 3
    assert sum(seen) == 4 * len(NAMES)


def test_under_the_trust_measures(sessions: Halves, all_sessions: Halves) -> None:
    """Of whether this track is skipped, not of the other tracks of its session."""
    model = explainable_skips(network_of("interpretable transformer"), all_sessions)
    batch = model.ask(sessions)
    experts, shapley = (
        explain_batch(model, batch, skips(len(batch)), method) for method in ("experts", "shapley")
    )
    assert -1 <= agreement(experts, shapley).value <= 1
    curves = deletion_curves(model, batch, [experts, "random order", "greedy oracle"])
    area = {name: float(np.nanmean(one.area())) for name, one in curves.items()}
    assert area["greedy oracle"] > area["random order"]


def test_empty_slots_stay_empty(
    sessions: Halves, all_sessions: Halves, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = explainable_skips(network_of("ordinary gru"), all_sessions)
    batch = model.ask(sessions)
    seen: list[torch.Tensor] = []

    def watched(known: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
        seen.extend((known, asked))
        return torch.zeros(*asked.shape[:2], 2)

    monkeypatch.setattr(model.network, "scores", watched)
    model.score(batch, ALL, present=torch.zeros_like(model.parts(batch)))
    session = np.nonzero(sessions.asked_there)[0]
    for rows, there in zip(seen, (sessions.known_there, sessions.asked_there), strict=True):
        assert (rows[~torch.from_numpy(there[session])] == ABSENT).all()
        assert (rows[torch.from_numpy(there[session])] != ABSENT).all()


def test_what_cannot_be_asked(sessions: Halves) -> None:
    network = network_of("ordinary gru")
    with pytest.raises(InputError, match="give one at least"):
        explainable_skips(network, sessions[:0])
    model = explainable_skips(network, sessions)
    with pytest.raises(InputError, match="none has 1040 numbers"):
        explain_batch(model, model.ask(sessions)[:2, 1:], skips(2), "leave-one-out")
