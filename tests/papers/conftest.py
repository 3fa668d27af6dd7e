"""A quick run of each paper, once: without digits, in a process of its own."""

import json
import os
import subprocess
import sys
from functools import cache
from types import SimpleNamespace

import matplotlib
import pytest
from scripts import as_users_have_it

matplotlib.use("Agg")

RUN = """
import sys
from importlib import import_module
from pathlib import Path
paper, out, *options = sys.argv[1:]
import_module(f"latentbits.papers.{paper}.reproduce").reproduce(
    Path(out), quick=True, say=print, **({"digits": "none"} if options else {})
)
"""
# These run for longer than they compile, and are given code as users have it.
OPTIMISED = ("tipping_1998", "henniges_2010", "lewicki_sejnowski_1996")
WITH_DIGITS = ("tipping_1998", "lee_sompolinsky_1998", "freund_haussler_1994")


@pytest.fixture(scope="session")
def quick_run(tmp_path_factory):
    """A function that gives what a quick run of a paper has found, where it wrote, and what it said."""

    @cache
    def run(paper):
        out = tmp_path_factory.mktemp(paper) / "new" / "folder"
        options = ["none"] if paper in WITH_DIGITS else []
        environment = as_users_have_it() if paper in OPTIMISED else dict(os.environ)
        command = [sys.executable, "-c", RUN, paper, str(out), *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        results = json.loads((out / "results.json").read_text("utf-8"))
        return SimpleNamespace(results=results, out=out, said=done.stdout)

    return run
