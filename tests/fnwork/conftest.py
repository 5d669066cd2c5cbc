"""A small table and a spec over it, which trains in a moment."""

from pathlib import Path

import numpy as np
import pytest

from fnwork.archive import Archive


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch):
    """What is measured once a machine is kept beside the tests, not in the person's own cache."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(folder))
    monkeypatch.delenv("FNWORK_CACHE", raising=False)


SPEC = """\
# a small table
name = "small"
tags = ["test"]
seed = 3

[data]
dataset = "csv"
path = "small.csv"
target = "kind"
validation = 0.25

[[model.layers]]
type = "linear"
out = 8

[[model.layers]]
type = "relu"

[[model.layers]]
type = "dropout"
rate = 0.2

[[model.layers]]
type = "linear"

[train]
epochs = 4
micro_batch = 8
accumulate = 2
lr = 0.01
"""


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path / "experiments")


@pytest.fixture
def spec_path(archive) -> Path:
    """`small.toml` in the archive's specs, with `small.csv` beside it: 160 rows of two classes."""
    archive.specs.mkdir(parents=True)
    values = np.random.default_rng(0).normal(size=(160, 3))
    kinds = np.where(values.sum(axis=1) > 0, "warm", "cold")
    lines = ["a,b,c,kind", *(f"{a:.5f},{b:.5f},{c:.5f},{kind}" for (a, b, c), kind in zip(values, kinds, strict=True))]
    (archive.specs / "small.csv").write_text("\n".join(lines) + "\n")
    path = archive.specs / "small.toml"
    path.write_text(SPEC)
    return path
