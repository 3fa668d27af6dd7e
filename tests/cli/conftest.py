"""Shared by the tests of the tool: small files, and a runner that leaves JAX's configuration alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from made import made, rows_for
from tests.tables import NAMES, classes

from latentbits.cli.main import cli


class Tool:
    """The tool, run inside this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments, code=0):
        result = CliRunner().invoke(cli, [str(a) for a in arguments])
        if result.exit_code != code:
            raise AssertionError(f"exit {result.exit_code}, not {code}: {result.output}") from result.exception
        return result

    def json(self, *arguments):
        """Read the object that the command prints; nothing else may be on stdout."""
        return json.loads(self(*arguments, "--json").stdout)


@pytest.fixture
def tool(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENTBITS_DATA", raising=False)
    return Tool(tmp_path)


@pytest.fixture(scope="session")
def process(tmp_path_factory):
    """The tool as a separate process, with a cache folder that all these tests share."""
    cache = tmp_path_factory.mktemp("cache")
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}

    def run(*arguments, command=("-m", "latentbits.cli.main"), **environment):
        return subprocess.run(
            [sys.executable, *command, *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**inherited, "LATENTBITS_CACHE": str(cache), **environment},
        )

    run.cache = cache
    return run


@pytest.fixture
def names():
    return NAMES


@pytest.fixture
def table():
    """Rows of two kinds, 240 of them, and 12 missing cells."""
    rows = classes(means=np.array([[0.9, 0.9, 0.1, 0.1, 0.1, 0.8], [0.1, 0.1, 0.9, 0.8, 0.2, 0.2]]))
    rows[::20, 1] = np.nan
    return rows


@pytest.fixture
def write_csv(tmp_path):
    """A function that writes a table into the folder of the test."""

    def write(name, table, names=NAMES):
        lines = [] if names is None else [",".join(names)]
        lines += [",".join("NA" if np.isnan(v) else f"{v:.6g}" for v in row) for row in table]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    return write


@pytest.fixture
def csv(write_csv, table):
    return write_csv("bits.csv", table)


@pytest.fixture
def few():
    """So few rows that `explore` tries a single size of a mixture; their two kinds are plain to see."""
    return classes(60, means=np.array([[0.95, 0.95, 0.05, 0.05, 0.05, 0.95], [0.05, 0.05, 0.95, 0.95, 0.2, 0.05]]))


LEARNED: list[bytes] = []


@pytest.fixture
def model(tool, csv):
    """The file of a mixture of two, which is fitted once."""
    path = tool.folder / "m.safetensors"
    if not LEARNED:
        tool("fit", csv, "-k", 2, "-o", path)
        LEARNED.append(path.read_bytes())
    path.write_bytes(LEARNED[0])
    return path


@pytest.fixture
def ready(monkeypatch, tool, write_csv):
    """A function that writes rows of a family, and lets `fit` take no time: it gives the file of the rows."""

    def make(name):
        monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda estimator, *_: made(name, estimator))
        return write_csv("rows.csv", rows_for(name))

    return make


@pytest.fixture
def asked(tool, csv, monkeypatch):
    """A function that gives the parameters of the estimator that words of `fit` make, without a fit."""

    def ask(*words):
        seen = []
        monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda estimator, *_: seen.append(estimator) or 1 / 0)
        tool("fit", csv, *words, code=1)
        return seen[0].get_params()

    return ask
