"""Session networks of other seeds: divergences, jackknives and correlations by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy import stats

from whence.arrays import Floats
from whence.errors import InputError
from whence.experts import InterpretableTransformer, SequentialModel
from whence.explainers import explain_batch
from whence.trust import attention_kl
from whence_studies.measurements.between_seeds import ratio_over_seeds
from whence_studies.measurements.group_agreement import METHODS, RHO, SAME
from whence_studies.records import ValuesBySeed
from whence_studies.sessions import (
    ListeningConfig,
    SessionFiles,
    Tracks,
    read_tracks,
    write_sessions,
)
from whence_studies.sessions.session_batches import SessionBatch
from whence_studies.skips import (
    SKIP,
    NetworkConfig,
    attribute_skips,
    cross_attention,
    explainable_skips,
    make_network,
)
from whence_studies.skips.networks import NetworkKind
from whence_studies.tables.skip_seeds import (
    ATTENTION_METHODS,
    BY_CAUSE,
    BY_GROUPS,
    BY_TRACKS,
    KL_BETWEEN_SEEDS,
    KL_TO_OTHER_CASES,
    KL_TO_RANDOM,
    RANDOM_TRACKS,
    TRACKS,
    SeedExplanations,
    SeedQuestions,
    compare_seeds,
    draw_questions,
    explain_questions,
    seed_columns,
    shuffle_cases,
)

KINDS: tuple[NetworkKind, ...] = (
    "interpretable transformer",
    "ordinary transformer",
    "interpretable gru",
    "ordinary gru",
)
EXPLAINED: dict[tuple[str, int, int], SeedExplanations] = {}
HAS = dict(zip(KINDS, [(*BY_GROUPS, *BY_TRACKS), BY_TRACKS, BY_GROUPS, ()], strict=True))


def network_of(kind: NetworkKind, seed: int) -> SequentialModel:
    """Untrained, with scaled layers so that outputs depend on the inputs."""
    network = make_network(NetworkConfig(kind, dim=4, n_heads=2, n_layers=2), seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.mul_(0.3 if kind.endswith("gru") and ".reader." in name else 1.5)
    return network.eval()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SessionFiles:
    folder = tmp_path_factory.mktemp("seeds") / "s"
    return write_sessions(folder, ListeningConfig(sessions=60, tracks=120, seed=3))


@pytest.fixture(scope="module")
def tracks(files: SessionFiles) -> Tracks:
    return read_tracks(files.tracks)


@pytest.fixture(scope="module")
def questions(files: SessionFiles, tracks: Tracks) -> SeedQuestions:
    return draw_questions(files, tracks, 25)


def compared(kind: NetworkKind, seeds: list[int], questions: SeedQuestions) -> ValuesBySeed:
    """Compare networks of these seeds, as the study's seeds 0, 1 and so on.

    All tests ask about the same sessions, so each network is explained once.
    """
    for case in ((kind, *pair) for pair in enumerate(seeds)):
        if case not in EXPLAINED:
            _, place, seed = case
            EXPLAINED[case] = explain_questions(network_of(kind, seed), questions, place)
    explained = (EXPLAINED[kind, place, seed] for place, seed in enumerate(seeds))
    return compare_seeds(explained, questions)


def test_one_track_is_drawn_per_session(files: SessionFiles, tracks: Tracks) -> None:
    few, more = (draw_questions(files, tracks, count) for count in (4, 1_000))
    assert len(few.sessions) == len(few.tracks) == 4
    assert len(more.sessions) == 60
    np.testing.assert_array_equal(few.sessions.known, more.sessions.known[:4])
    session, slot = (at[more.tracks] for at in np.nonzero(more.sessions.upcoming_mask))
    assert list(session) == list(range(60))
    assert len(set(slot)) > 4, "not always the same"
    np.testing.assert_array_equal(more.known_mask, more.sessions.known_mask)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_match_the_network(kind: NetworkKind, questions: SeedQuestions) -> None:
    assert seed_columns(NetworkConfig(kind)) == HAS[kind]
    by_cause = set(seed_columns(NetworkConfig(kind), causes=True)) - set(HAS[kind])
    assert by_cause == (set(BY_CAUSE.values()) if SAME in HAS[kind] else set())
    found = {one for one in compared(kind, [0, 1, 2], questions) if not one.endswith(TRACKS)}
    assert found == set(HAS[kind]) | by_cause
    plain = questions._replace(sessions=SessionBatch(*questions.sessions.arrays()[:5]))  # type: ignore[arg-type]
    assert set(compared(kind, [0, 1, 2], plain)) == set(HAS[kind]), "no causes are known"
    two = set(compared(kind, [0, 1], questions))
    assert two == (set(RHO.values()) & set(HAS[kind])), "pairs need three seeds"


@pytest.mark.parametrize("kind", KINDS[:3])
def test_identical_seeds_agree(kind: NetworkKind, questions: SeedQuestions) -> None:
    found = compared(kind, [4, 4, 4], questions)
    for column, values in found.items():
        if "random" in column.removeprefix(KL_TO_RANDOM):
            continue
        if column.endswith(TRACKS):
            continue
        if column.startswith(SAME):
            assert values == pytest.approx([1] * 3)
        elif column in RHO.values():
            assert values == pytest.approx([values[0]] * 3)
        else:
            assert values == pytest.approx([0] * 3, abs=1e-8), column


def shares_of(sizes: Floats) -> Floats:
    shares: Floats = 1e-10 + sizes / sizes.sum()
    return shares


def pairwise(sizes: Floats, parts: npt.NDArray[np.bool_]) -> Floats:
    """Return scipy's KL for every pair of seeds, averaged over cases."""
    found = np.zeros((len(sizes), len(sizes)))
    for i, j in itertools.combinations(range(len(sizes)), 2):
        found[i, j] = np.mean(
            [
                stats.entropy(
                    *(1e-10 + sizes[seed, b, own] / sizes[seed, b, own].sum() for seed in (i, j))
                )
                for b, own in enumerate(parts)
                if own.sum() > 1
            ]
        )
    return found


def mean_of_pairs(pairs: Floats, kept: list[int]) -> float:
    return float(np.mean([pairs[i, j] for i, j in itertools.combinations(kept, 2)]))


def jackknife(statistic: Callable[[list[int]], float], seeds: int) -> list[float]:
    every = list(range(seeds))
    whole = statistic(every)
    return [
        seeds * whole - (seeds - 1) * statistic([one for one in every if one != left])
        for left in every
    ]


@pytest.mark.parametrize("kind", ["interpretable transformer", "interpretable gru"])
def test_groups_against_scipy(kind: NetworkKind, questions: SeedQuestions) -> None:
    networks = [network_of(kind, seed) for seed in range(4)]
    found = compared(kind, list(range(4)), questions)
    magnitudes: dict[str, list[Floats]] = {method: [] for method in METHODS}
    for seed, network in enumerate(networks):
        model = explainable_skips(network, questions.sessions)
        batch = model.make_cases(questions.sessions)[questions.tracks]
        targets = torch.full((len(batch),), SKIP)
        for method in METHODS:
            one = explain_batch(model, batch, targets, method, seed=seed)
            magnitudes[method].append(np.abs(one.scores))
    for method, column in RHO.items():
        for seed in range(4):
            rho = [
                stats.spearmanr(one, other).statistic
                for one, other in zip(
                    magnitudes[method][seed], magnitudes["shapley"][seed], strict=True
                )
            ]
            assert found[column][seed] == pytest.approx(np.nanmean(rho), abs=1e-6)
    parts = np.ones(magnitudes["shapley"][0].shape, dtype=np.bool_)
    pairs = {method: pairwise(np.stack(magnitudes[method]), parts) for method in METHODS}
    for method, own in pairs.items():
        expected = jackknife(lambda kept, own=own: mean_of_pairs(own, kept), 4)  # type: ignore[misc]
        assert found[f"{KL_BETWEEN_SEEDS}{method}"] == pytest.approx(expected, rel=1e-4, abs=1e-4)
        if method != "random":
            ratio = mean_of_pairs(own, [0, 1, 2, 3]) / mean_of_pairs(pairs["random"], [0, 1, 2, 3])
            assert np.mean(found[f"{KL_TO_RANDOM}{method}"]) == pytest.approx(ratio, rel=1e-3)
    assert np.mean(found[f"{KL_TO_OTHER_CASES}random"]) == pytest.approx(1, abs=0.25)
    chosen = [
        attribute_skips(network, questions.sessions).first[questions.tracks] for network in networks
    ]
    alike = [(one == two).mean() for one, two in itertools.combinations(chosen, 2)]
    assert np.mean(found[SAME]) == pytest.approx(np.mean(alike))
    assert 0 < np.mean(alike) < 1


def test_same_expert_by_cause_by_hand(questions: SeedQuestions) -> None:
    kind: NetworkKind = "interpretable gru"
    found = compared(kind, [0, 1, 2], questions)
    chosen = []
    for seed in range(3):
        network = network_of(kind, seed)
        first = attribute_skips(network, questions.sessions).first
        session, slot = np.nonzero(questions.sessions.upcoming_mask)
        chosen.append([(first[n], session[n], slot[n]) for n in questions.tracks])
    assert questions.sessions.causes is not None
    counted = 0
    for cause, column in BY_CAUSE.items():
        alike = [
            one[0] == other[0]
            for pair in itertools.combinations(chosen, 2)
            for one, other in zip(*pair, strict=True)
            if questions.sessions.causes[one[1], one[2]] == cause
        ]
        assert np.mean(found[column]) == pytest.approx(np.mean(alike))
        assert found[f"{column}{TRACKS}"] == [len(alike) / 3] * 3
        counted += len(alike) // 3
    assert 0 < counted < 25, "chance is none of the causes"


@pytest.mark.parametrize("kind", ["interpretable transformer", "ordinary transformer"])
def test_attention_against_scipy(kind: NetworkKind, questions: SeedQuestions) -> None:
    found = compared(kind, list(range(3)), questions)
    attention = []
    for seed in range(3):
        network = network_of(kind, seed)
        assert isinstance(network, InterpretableTransformer)
        attention.append(cross_attention(network, questions.sessions)[:, questions.tracks])
    parts = questions.sessions.known_mask
    assert not parts.all()
    for name, layer in zip(ATTENTION_METHODS[:2], (0, -1), strict=True):
        own = pairwise(np.stack([one[layer] for one in attention]), parts)
        expected = jackknife(lambda kept, own=own: mean_of_pairs(own, kept), 3)  # type: ignore[misc]
        assert found[f"{KL_BETWEEN_SEEDS}{name}"] == pytest.approx(expected, rel=1e-4)
        of_chance = np.mean(expected) / np.mean(found[f"{KL_BETWEEN_SEEDS}{RANDOM_TRACKS}"])
        assert np.mean(found[f"{KL_TO_RANDOM}{name}"]) == pytest.approx(of_chance, rel=1e-4)
    assert np.mean(found[f"{KL_TO_OTHER_CASES}{RANDOM_TRACKS}"]) == pytest.approx(1, abs=0.25)


def test_groups_and_tracks_share_the_reference(
    questions: SeedQuestions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are shuffled among sessions with equally many known tracks."""
    having = []

    def recorded(
        own: Floats, has: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        having.append(has)
        return shuffle_cases(own, has, rng)

    monkeypatch.setattr("whence_studies.tables.skip_seeds.shuffle_cases", recorded)
    compared("interpretable transformer", [0, 1, 2], questions)
    assert len(having) == len(METHODS) + len(ATTENTION_METHODS)
    for one in having:
        np.testing.assert_array_equal(one, questions.sessions.known_mask)


def test_relative_kl_has_the_jackknife_spread() -> None:
    rng = np.random.default_rng(0)
    parts = np.ones((50, 4), dtype=np.bool_)
    sizes, drawn = (rng.random((5, 50, 4)) for _ in range(2))
    values = ratio_over_seeds(attention_kl(sizes, parts), attention_kl(drawn, parts))
    own, chance = pairwise(sizes, parts), pairwise(drawn, parts)
    by_hand = jackknife(lambda kept: mean_of_pairs(own, kept) / mean_of_pairs(chance, kept), 5)
    assert np.std(values) == pytest.approx(np.std(by_hand), rel=1e-4)
    everyone = list(range(5))
    ratio = mean_of_pairs(own, everyone) / mean_of_pairs(chance, everyone)
    assert np.mean(values) == pytest.approx(ratio, rel=1e-6)
    still = attention_kl(np.ones((3, 50, 4)), parts)
    with pytest.raises(InputError, match="does not differ between seeds"):
        ratio_over_seeds(still, still)
