"""Files that stay on the disk: patterns, and large ones."""

import sys

import numpy as np
import pandas as pd
import pytest
from tests.tables import classes

import latentbits


@pytest.fixture
def bits():
    return classes().astype(np.uint8)


def test_a_pattern_is_one_table(tool, bits):
    np.save("whole.npy", bits)
    for number, part in enumerate(np.array_split(bits, 11)):
        np.save(f"rows-{number}.npy", part)
    printed = tool("fit", "rows-*.npy", "-k", 2, "--restarts", 1, "-o", "parts.safetensors").stderr
    assert "240 rows x 6 columns, left on the disk" in printed
    tool("fit", "whole.npy", "-k", 2, "--restarts", 1, "-o", "whole.safetensors")
    parts, whole = (latentbits.load(f"{name}.safetensors") for name in ("parts", "whole"))
    assert parts.score(bits) == whole.score(bits)
    scores = [
        tool.json("score", "parts.safetensors", source)["log_likelihood"] for source in ("rows-*.npy", "whole.npy")
    ]
    assert scores[0] == scores[1]


def test_a_large_parquet_is_not_read_whole(tool, bits, monkeypatch):
    names = [f"q{j}" for j in range(6)]
    pd.DataFrame(bits, columns=names).to_parquet("a.parquet")
    pd.DataFrame(bits[:, ::-1], columns=names[::-1]).to_parquet("turned.parquet")
    tool("fit", "a.parquet", "-k", 2, "--restarts", 1, "-o", "memory.safetensors")
    small = tool.json("score", "memory.safetensors", "a.parquet")
    reader = sys.modules["latentbits.data.read"]  # the package has a function of its name
    monkeypatch.setattr(reader, "MMAP_BYTES", 100)
    monkeypatch.setattr(reader, "_read_parquet", None)
    printed = tool("fit", "a.parquet", "-k", 2, "--restarts", 1, "-o", "streamed.safetensors").stderr
    assert "left on the disk" in printed
    model = latentbits.load("streamed.safetensors")
    assert model.feature_names_in_.tolist() == names
    for name in ("a", "turned"):
        large = tool.json("score", "streamed.safetensors", f"{name}.parquet")
        assert large["log_likelihood"] == small["log_likelihood"]
    assert tool.json("transform", "streamed.safetensors", "a.parquet", "-o", "z.npy")["n_rows"] == 240
