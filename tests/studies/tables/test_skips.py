"""Tables 2 and 3 of Afchar & Hennequin (2020): the published values, and how they are filled."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from safetensors.torch import save_file

from whence.errors import OutOfTime
from whence_studies.charts.study_page import as_markdown
from whence_studies.claims import FAILS, HOLDS, UNDECIDED
from whence_studies.measurements.group_agreement import SAME
from whence_studies.records import NEEDS_FILE, NOT_RUN, ONLY_PUBLISHED, PRIVATE, Record
from whence_studies.results import judge_by_records, rows_done
from whence_studies.sessions import (
    ListeningConfig,
    SessionSplit,
    read_tracks,
    split_files,
    write_sessions,
)
from whence_studies.skips import NetworkConfig, SkipConfig, TrainedSkips, fit_skips, make_network
from whence_studies.study import find_study
from whence_studies.tables.skip_columns import BY_TRACK, DERIVED, MOST_SELECTED, SELECTED
from whence_studies.tables.skip_networks import (
    IN_TURN,
    INTERPRETABLE,
    INTERPRETABLE_GRU,
    LONGER,
    NOT_LINKED,
    ORDINARY,
    ORDINARY_GRU,
    PUBLISHED,
    SMALL,
    TrainingPlan,
    ablations,
    all_kinds,
)
from whence_studies.tables.skip_seeds import BY_CAUSE, BY_GROUPS, BY_TRACKS
from whence_studies.tables.skips import (
    ABLATED,
    ORACLE,
    ORACLE_EXPERTS,
    SYNTHETIC_ABLATED,
    SYNTHETIC_SEEDS,
    SYNTHETIC_TABLE,
    measure,
)
from whence_studies.tables.trained_skips import (
    SkipSeed,
    TrainedNetwork,
    Workspace,
    checksum,
    train_on,
)

COLUMNS = ("accuracy", "accuracy of the first track", "mean average accuracy")
PAGES = {
    "Table 2 (Afchar & Hennequin 2020)": """
        random | 50.0 | 50.0 | 33.1
        last | 63.0 | 74.2 | 54.3
        mean | 61.7 | 66.3 | 51.7
        Transformer (128) | 72.2 ± 0.2 | 80.0 ± 0.2 | 62.8 ± 0.2
        WSDM leader-board | – | 81.2 | 65.1
        Interpretable Transformer (128) | 70.9 ± 0.2 | 78.8 ± 0.2 | 61.1 ± 0.2
        """,
    "Table 3 (Afchar & Hennequin 2020)": """
        random | 50.0 | 50.0 | 32.3
        last | 69.0 | 77.9 | 60.8
        mean | 70.1 | 73.3 | 60.9
        Transformer (256) | 78.9 | 83.4 | 70.2
        Interpretable Transformer (128) | 77.7 | 82.4 | 68.8
        Interpretable Transformer (64) | 77.4 | 82.3 | 68.4
        """,
}
FEW = ListeningConfig(sessions=200, logs=3, tracks=100)
BRIEFLY = SkipConfig(steps=4, batch_size=50, learning_rate=0.01, validate_every=0)
TINY = TrainingPlan(all_kinds(NetworkConfig(dim=4, n_heads=2, n_layers=1), 2), BRIEFLY, 3, 20)
OF_THE_USER = {
    row: replace(network, dim=2, n_heads=2, n_layers=1)
    for row, network in PUBLISHED.networks.items()
}
TABLE_2 = TrainingPlan(OF_THE_USER, BRIEFLY, 3, 20)
EXPERT_ROWS = (INTERPRETABLE, INTERPRETABLE_GRU)
ABLATIONS = [f"{row}{one}" for row in EXPERT_ROWS for one in (NOT_LINKED, IN_TURN)]
ABLATIONS += [f"{INTERPRETABLE_GRU}{LONGER}"]


@pytest.fixture(autouse=True)
def _data_are_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))


class TrainedStudy(NamedTuple):
    """The cache of a study without the user's files, and its records."""

    folder: Path
    records: list[Record]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedStudy:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHENCE_DATA", str(folder / "none"))
        patch.setenv("XDG_DATA_HOME", str(folder / "none"))
        workspace = Workspace(folder, show_progress=False)
        return TrainedStudy(folder, measure(find_study("attribution-skips"), workspace, FEW, TINY))


def test_published_values() -> None:
    published = find_study("attribution-skips").published
    for table, page in PAGES.items():
        rows = [line.split(" | ") for line in page.strip().splitlines()]
        expected = {
            row.strip(): {
                column: text for column, text in zip(COLUMNS, cells, strict=True) if text != "–"
            }
            for row, *cells in rows
        }
        held = {
            row: {column: text for column, text in cells.items() if column != "dataset"}
            for row, cells in published[table].items()
        }
        assert held == expected
    assert list(published) == list(PAGES)


def test_without_files_rows_say_why(trained: TrainedStudy) -> None:
    study, records = find_study("attribution-skips"), trained.records
    why = {record.verdict for record in records if record.dataset == "spotify-sessions"}
    assert why == {NEEDS_FILE, ONLY_PUBLISHED}
    assert {one.verdict for one in records if one.dataset == "deezer-sessions"} == {PRIVATE}
    made = {(one.row, one.column): one for one in records if one.protocol == SYNTHETIC_TABLE}
    rows = ("random", "last", "mean", ORACLE, ORACLE_EXPERTS)
    assert {row for row, _ in made} == set(rows)
    assert all(made[row, column].n == 200 for row in rows for column in COLUMNS)
    assert made["mean", COLUMNS[0]].value < made[ORACLE, COLUMNS[0]].value  # type: ignore[operator]
    assert made[ORACLE_EXPERTS, "context"].value == 100
    assert made["last", COLUMNS[1]].value > made["last", COLUMNS[0]].value  # type: ignore[operator]
    assert rows_done(study, records) == (15, 26)
    page = as_markdown(study, records)
    assert "| last | – (63) | – (74.2) | – (54.3) |" in page
    assert "– needs your copy of the data: random; last; mean; Transformer (128);" in page
    assert f"– {ONLY_PUBLISHED}: WSDM leader-board." in page
    assert "– private data." in page


def test_with_files_baselines_use_the_last_tenth(tmp_path: Path) -> None:
    config = ListeningConfig(sessions=150, logs=3, tracks=100, seed=1)
    write_sessions(tmp_path / "spotify-sessions", config)
    study = find_study("attribution-skips")
    assert study.datasets["Spotify"].available
    assert not study.datasets["Deezer"].available
    workspace = Workspace(tmp_path, until=time.monotonic(), show_progress=False)
    records = measure(study, workspace, FEW, TINY, TABLE_2)
    spotify = [one for one in records if one.dataset == "spotify-sessions"]
    measured = {one.row for one in spotify if one.value is not None}
    assert measured == {"random", "last", "mean"}
    absent = {one.row: one.verdict for one in spotify if one.row not in measured}
    assert absent.pop("WSDM leader-board") == ONLY_PUBLISHED
    assert set(absent.values()) == {NOT_RUN}
    for one in spotify:
        if one.row in measured:
            assert one.n == 150
            assert one.interval is not None
            assert one.value is not None
            assert one.interval[0] < one.value < one.interval[1]
            meets = one.interval[0] - 0.05 <= (one.published or 0) <= one.interval[1] + 0.05
            assert (one.verdict == "agrees") == meets


def test_networks_train_on_the_users_files(trained: TrainedStudy, tmp_path: Path) -> None:
    """Once for the same files, and again for others; without time they are not run."""
    shutil.copytree(trained.folder / "skips", tmp_path / "skips")
    config = ListeningConfig(sessions=150, logs=3, tracks=100, seed=1)
    write_sessions(tmp_path / "spotify-sessions", config)
    study = find_study("attribution-skips")
    late = Workspace(tmp_path, until=time.monotonic(), show_progress=False)

    def networks(workspace: Workspace) -> dict[tuple[str, str], Record]:
        records = measure(study, workspace, FEW, TINY, TABLE_2)
        rows = [one for one in records if one.dataset == "spotify-sessions"]
        return {(one.row, one.column): one for one in rows if one.row in OF_THE_USER}

    ordinary, interpretable = OF_THE_USER
    before = networks(late)
    assert {one.verdict for one in before.values()} == {NOT_RUN}
    found = networks(Workspace(tmp_path, show_progress=False))
    assert found.keys() == before.keys()
    expected = {(row, column) for row in OF_THE_USER for column in COLUMNS}
    expected |= {(interpretable, column) for column in (*SELECTED, *DERIVED, *BY_GROUPS)}
    assert found.keys() == expected | {(row, column) for row in OF_THE_USER for column in BY_TRACKS}
    for one in found.values():
        assert one.seeds == (0, 1, 2)
        assert one.n == (20 if one.column in (*BY_GROUPS, *BY_TRACKS) else 150)
        assert one.verdict in ("agrees", "higher", "lower", "not published")
    assert found[ordinary, COLUMNS[0]].published == 72.2
    assert found[interpretable, COLUMNS[0]].protocol.startswith("Table 2")
    assert networks(late) == found
    judged = judge_by_records(study, measure(study, late, FEW, TINY, TABLE_2))
    texts = {one.text for one in study.claims if one.of.dataset == "spotify-sessions"}
    claims = [one for one in judged if one.row in texts]
    assert len(claims) == 4
    assert all(one.verdict in (HOLDS, FAILS, UNDECIDED) for one in claims)
    write_sessions(tmp_path / "spotify-sessions", replace(config, seed=2), overwrite=True)
    assert {one.verdict for one in networks(late).values()} == {NOT_RUN}


def test_how_table_2_is_trained() -> None:
    learned = "3 layers each way; 120,000 steps of 500 sessions, Adam 0.0001, times 0.8 on plateaus"
    assert [PUBLISHED.protocol(row) for row in PUBLISHED.networks] == [
        f"128 features and 8 heads, {learned}",
        f"8 experts of 128 features and 8 heads, {learned}",
    ]
    assert TINY.protocol(INTERPRETABLE_GRU) == (
        "8 experts of 4 features; 4 steps of 50 sessions, Adam 0.01"
    )
    assert TINY.protocol(ORDINARY).startswith("32 features and 2 heads, 1 layer each way; ")


def test_how_ablations_are_trained() -> None:
    """Only networks with experts have such rows."""
    every = ablations(SMALL)
    assert list(every.networks) == ABLATIONS
    protocol = every.protocol(f"{INTERPRETABLE_GRU}{NOT_LINKED}")
    assert protocol.startswith("8 experts of 16 features, not linked; 6,000 steps")
    for row in EXPERT_ROWS:
        linked, apart = (
            make_network(one, 0)
            for one in (SMALL.networks[row], every.networks[f"{row}{NOT_LINKED}"])
        )
        assert len(list(apart.parameters())) < len(list(linked.parameters()))
        share = every.training_of(f"{row}{IN_TURN}")
        assert (share.steps, share.warmup, share.validate_every) == (6_000, 150, 63)
        assert share.levels_in_turn
    longer = every.protocol(f"{INTERPRETABLE_GRU}{LONGER}")
    anew = "one level of experts after another, each with its own learning-rate schedule"
    assert f"24,000 steps of 100 sessions, {anew}, Adam 0.002 after 600 steps of" in longer


def test_ablations_run_after_plain_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And after the comparison of their seeds, because ablations take longer."""
    study, begun = find_study("attribution-skips"), []

    def fit(*given: object, **more: object) -> TrainedSkips:
        begun.append(given[3])
        if len(begun) > 3 * len(TINY.networks):
            raise OutOfTime("The time is over.")
        return fit_skips(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("whence_studies.tables.trained_skips.fit_skips", fit)
    records = measure(study, Workspace(tmp_path, show_progress=False), FEW, TINY)
    made = [one for one in records if one.dataset == "listening"]
    assert {one.row for one in made if one.value is None} == set(ABLATIONS)


def test_networks_train_on_synthetic_sessions(trained: TrainedStudy, tmp_path: Path) -> None:
    """Every seed trains once: the second time nothing is trained, and without time nothing is."""
    study, records = find_study("attribution-skips"), trained.records
    late = Workspace(tmp_path, until=time.monotonic(), show_progress=False)
    rows = (INTERPRETABLE, ORDINARY, INTERPRETABLE_GRU, ORDINARY_GRU)
    before = [one for one in measure(study, late, FEW, TINY) if one.row in rows]
    assert {one.verdict for one in before} == {NOT_RUN}
    found = {(one.row, one.column): one for one in records}
    for row in rows:
        for column in COLUMNS:
            one = found[row, column]
            assert one.seeds == (0, 1, 2)
            assert one.n == 200
            assert one.interval is not None
            assert one.protocol == f"{SYNTHETIC_TABLE}; {TINY.protocol(row)}"
    assert (ORDINARY, "attribution accuracy") not in found
    causes = ("persistence", "context", "music", "popularity")
    assert all(0 <= found[INTERPRETABLE, one].value <= 100 for one in causes)  # type: ignore[operator]
    for cause in causes:
        seen, simplest = (found[INTERPRETABLE, f"{what}{cause}"] for what in ("cause seen: ", ""))
        assert seen.value >= simplest.value  # type: ignore[operator]
    for what in ("most selected", "mean attribution"):
        shares = [found[INTERPRETABLE, f"{what}: S{expert}"].value for expert in range(1, 9)]
        assert sum(shares) == pytest.approx(100)  # type: ignore[arg-type]
    assert found[INTERPRETABLE, BY_TRACK].value == pytest.approx(
        sum(found[INTERPRETABLE, f"most selected: {name}"].value for name in ("S3", "S4", "S6"))  # type: ignore[misc]
    )
    assert measure(study, replace(late, folder=trained.folder), FEW, TINY) == records


def test_derived_columns() -> None:
    """Each seed by itself: the most selected expert may differ."""
    shares = [(0.5, 0.1, 0.0, 0.2, 0.0, 0.1, 0.1, 0.0), (0.0, 0.1, 0.2, 0.2, 0.0, 0.3, 0.1, 0.1)]
    trained = TrainedNetwork(
        {
            seed: {f"most selected: S{place}": one for place, one in enumerate(row, 1)}
            for seed, row in enumerate(shares)
        }
    )
    assert trained.values(BY_TRACK) == pytest.approx([0.3, 0.7])
    assert trained.values(MOST_SELECTED) == [0.5, 0.3]


def made(tmp_path: Path) -> SessionSplit:
    return split_files(write_sessions(tmp_path / "made", FEW))


ONE = TrainingPlan({INTERPRETABLE: TINY.networks[INTERPRETABLE]}, BRIEFLY, 3, 10)


def no_training(*given: object, **more: object) -> None:
    raise AssertionError("nothing is to be trained")


def test_existing_weights_are_only_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are found by the seed's key, wherever they were trained."""
    parts, here = made(tmp_path), Workspace(tmp_path / "here", show_progress=False)
    trained = train_on(parts, ONE, here)
    there = Workspace(tmp_path / "there", show_progress=False)
    tracks, kind = read_tracks(parts.train.tracks), ONE.networks[INTERPRETABLE]
    for number in range(3):
        seed = SkipSeed(kind, BRIEFLY, number, checksum(parts))
        network = fit_skips(parts, tracks, kind, BRIEFLY, number, show_progress=False).model
        tensors = {f"model.{name}": value for name, value in network.state_dict().items()}
        path = tmp_path / "there" / "skips" / f"{seed.key('cpu')}-weights.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path)
        assert path == seed.weights(there)
    monkeypatch.setattr("whence_studies.tables.trained_skips.fit_skips", no_training)
    assert train_on(parts, ONE, there) == trained
    between = {one for one in trained[INTERPRETABLE].between if not one.startswith(f"{SAME}, ")}
    assert between == {*BY_GROUPS, *BY_TRACKS}


def test_only_missing_files_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures without their networks, and one lost file."""
    parts, workspace = made(tmp_path), Workspace(tmp_path / "kept", show_progress=False)
    trained = train_on(parts, ONE, workspace)[INTERPRETABLE]
    kept = sorted(one.name for one in workspace.cache.iterdir())
    assert sum(name.endswith("-weights.safetensors") for name in kept) == 3
    assert sum(name.endswith(".json") for name in kept) == 4
    assert len(kept) == 7, "no checkpoint is left"
    (between,) = workspace.cache.glob("*-seeds.json")
    between.unlink()
    lost = next(workspace.cache.glob("*-weights.safetensors"))
    lost.unlink()
    late = replace(workspace, until=time.monotonic())
    assert train_on(parts, ONE, late)[INTERPRETABLE] == replace(trained, between={})
    calls: list[object] = []

    def counted(*given: object, **more: object) -> TrainedSkips:
        calls.append(given[4])
        return fit_skips(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("whence_studies.tables.trained_skips.fit_skips", counted)
    assert train_on(parts, ONE, workspace)[INTERPRETABLE] == trained
    assert len(calls) == 1
    assert lost.exists()


def test_seeds_are_compared_on_synthetic_sessions(trained: TrainedStudy) -> None:
    """Shares are in percent, and correlations and divergences are not."""
    study, records = find_study("attribution-skips"), trained.records
    found = {
        (one.row, one.column): one
        for one in records
        if one.protocol.startswith(f"{SYNTHETIC_SEEDS}; ")
    }
    by_cause = {
        column: [found.pop((row, column)) for row in (INTERPRETABLE, INTERPRETABLE_GRU)]
        for column in BY_CAUSE.values()
    }
    expected = {(row, one) for row in (INTERPRETABLE, INTERPRETABLE_GRU) for one in BY_GROUPS}
    assert set(found) == expected | {
        (row, column) for row in (INTERPRETABLE, ORDINARY) for column in BY_TRACKS
    }
    for (_, column), one in found.items():
        assert one.value is not None
        assert one.interval is not None
        assert one.n == 20
        if column.startswith("rho"):
            assert -1 <= one.value <= 1
    assert found[INTERPRETABLE, SAME].value > 1  # type: ignore[operator]
    assert 0 < sum(one.n or 0 for one, _ in by_cause.values()) <= 20, "a track has one cause"
    for column, (one, other) in by_cause.items():
        assert one.n == other.n, "the same tracks"
        assert one.protocol.startswith(f"{SYNTHETIC_SEEDS}; {column}: tracks with")
        assert one.value is not None
        assert 0 <= one.value <= 100
    assert found[INTERPRETABLE, "KL relative to other cases, random"].value == pytest.approx(
        1, abs=0.5
    )
    judged = judge_by_records(study, records)
    page = as_markdown(study, judged)
    assert f"## {SYNTHETIC_SEEDS}\n" in page
    ablations = [one for one in records if one.protocol.startswith(f"{SYNTHETIC_ABLATED}; ")]
    assert [(one.row, one.column) for one in ablations] == [
        (r, c) for r in ABLATIONS for c in ABLATED
    ]
    assert all(one.seeds == (0, 1, 2) for one in ablations)
    claims = judged[len(records) :]
    assert len(claims) == len(study.claims) > 0
    for one in claims:
        if one.dataset == "spotify-sessions":
            assert (one.value, one.verdict) == (None, NEEDS_FILE)
        else:
            assert one.interval is not None, "every side is a cell of a table"
