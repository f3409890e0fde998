"""Attention to known tracks, by hand, and networks as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from whence.errors import InputError
from whence.experts import InterpretableTransformer
from whence_studies.sessions import ListeningConfig, read_tracks, write_sessions
from whence_studies.sessions.session_batches import SessionBatch, batches
from whence_studies.skips import (
    NetworkConfig,
    attribute_skips,
    cross_attention,
    known_tracks,
    load_network,
    make_network,
    predict_skips,
    save_network,
)
from whence_studies.skips.networks import NetworkKind
from whence_studies.skips.skip_evaluation import session_tensors

KINDS: tuple[NetworkKind, ...] = ("interpretable transformer", "ordinary transformer")


def config(kind: NetworkKind) -> NetworkConfig:
    return NetworkConfig(kind, dim=4, n_heads=2, n_layers=2)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> SessionBatch:
    folder = tmp_path_factory.mktemp("looking") / "s"
    files = write_sessions(folder, ListeningConfig(sessions=12, tracks=120, seed=3))
    (batch,) = batches(files, read_tracks(files.tracks), 12)
    assert not batch.known_mask.all()
    return batch


@pytest.mark.parametrize("kind", KINDS)
def test_cross_attention_is_weighted_by_selection(
    kind: NetworkKind, sessions: SessionBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Track by track, in several pieces."""
    model = make_network(config(kind), 0).eval()
    assert isinstance(model, InterpretableTransformer)
    monkeypatch.setattr("whence_studies.skips.skip_evaluation.BATCH", 5)
    found, there = cross_attention(model, sessions), known_tracks(sessions)
    tensors = session_tensors(sessions, "cpu")
    with torch.no_grad():
        attention = [
            one.double().numpy() for one in model.cross_attentions(tensors.known, tensors.upcoming)
        ]
        selected = model.attribute(tensors.known, tensors.upcoming).double().numpy()
    tracks = [(one, slot) for one, slot in np.argwhere(sessions.upcoming_mask)]
    assert found.shape == (2, len(tracks), 10)
    for number, (session, slot) in enumerate(tracks):
        assert (there[number] == sessions.known_mask[session]).all()
        for layer in range(2):
            heads = attention[layer][session, :, :, slot].mean(axis=1)
            expected = sum(
                alpha * row for alpha, row in zip(selected[session, slot], heads, strict=True)
            )
            np.testing.assert_allclose(found[layer, number], expected, rtol=1e-4)
    if kind == "ordinary transformer":
        shares = found / found.sum(axis=2, keepdims=True)
        session, slot = tracks[-1]
        np.testing.assert_allclose(
            shares[1, -1], attention[1][session, 0, :, slot].mean(axis=0), rtol=1e-4
        )


def test_no_sessions_are_rejected(sessions: SessionBatch) -> None:
    model = make_network(config("interpretable transformer"), 0).eval()
    assert isinstance(model, InterpretableTransformer)
    assert predict_skips(model, sessions[:0]).shape == (0, 10)
    assert len(attribute_skips(model, sessions[:0])) == 0
    with pytest.raises(InputError, match=r"^There are no sessions\. Pass"):
        cross_attention(model, sessions[:0])


@pytest.mark.parametrize("kind", [*KINDS, "interpretable gru", "ordinary gru"])
def test_network_round_trips_through_its_file(
    kind: NetworkKind, sessions: SessionBatch, tmp_path: Path
) -> None:
    model, path = make_network(config(kind), 5), tmp_path / "deep" / "weights.safetensors"
    save_network(model, path)
    held = load_file(path)
    assert {name.removeprefix("model.") for name in held} == set(model.state_dict())
    assert all(name.startswith("model.") for name in held)
    again = load_network(config(kind), path)
    assert not again.training
    np.testing.assert_array_equal(predict_skips(again, sessions), predict_skips(model, sessions))


def test_file_of_another_network_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_network(make_network(config("ordinary gru"), 0), path)
    with pytest.raises(InputError, match="does not hold this training"):
        load_network(config("interpretable gru"), path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="does not hold this training"):
        load_network(config("ordinary gru"), path)
