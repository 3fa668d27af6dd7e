"""What a command writes: tried before the work, kept elsewhere if it cannot be written after it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import latentbits
from latentbits.cli.console import in_one_line

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is always full")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "absent.csv", "-o", "nowhere/m"), "--out: cannot write nowhere/m: there is no folder nowhere"),
        (("fit", "absent.csv", "-o", "file/m"), "--out: cannot write file/m: Not a directory"),
        (("fit", "absent.csv", "-o", "m" * 300), "File name too long"),
        (("fit", "absent.csv", "-m", "latent-trait", "--items", "i.doc"), "--items: i.doc: cannot write '.doc'"),
        (("fit", "absent.csv", "-m", "clipped-gaussian", "--correlations", "c"), "--correlations: c: cannot write ''"),
        (
            ("fit", "absent.csv", "-m", "clipped-gaussian", "--items", "x.csv", "--correlations", "./x.csv"),
            "--correlations ./x.csv: --items names the same file",
        ),
        (("score", "absent", "absent.csv", "--per-row", "p.doc"), "--per-row: p.doc: cannot write '.doc'"),
        (("transform", "absent", "absent.csv", "-o", "t.doc"), "--out: t.doc: cannot write '.doc'"),
        (("complete", "absent", "absent.csv", "-o", "nowhere/c.csv"), "there is no folder nowhere"),
        (("sample", "absent", "-o", "file/s.csv"), "cannot write file/s.csv: Not a directory"),
        (("data", "zoo", "-o", "nowhere/d.npz"), "there is no folder nowhere"),
        (("explore", "absent.csv", "--out", "file/x.html"), "file"),
        (("explore", "absent.csv", "--figures", "file/x"), "file"),
        (("explore", "absent.csv", "--figures", "taken"), "--figures: cannot write taken/map.png: it is a folder"),
        (("fit", "absent.csv", "--figures", "file/x"), "file"),
        (("fit", "absent.csv", "--figures", "taken"), "--figures: cannot write taken/pairs.png: it is a folder"),
        (("reproduce", "tipping_1998", "--out", "file/x"), "file"),
        (("reproduce", "tipping_1998", "--out", "taken"), "cannot write taken/results.json: it is a folder"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_the_work(tool, arguments, message):
    Path("file").write_bytes(b"mine")
    Path("taken/map.png").mkdir(parents=True)
    Path("taken/pairs.png").mkdir()
    Path("taken/results.json").mkdir()
    before = sorted(Path().rglob("*"))
    result = tool(*arguments, code=1)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert "absent" not in result.stderr
    assert sorted(Path().rglob("*")) == before
    assert Path("file").read_bytes() == b"mine"


def test_in_python_too_a_page_is_tried_first(tmp_path, table):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        latentbits.explore(table, out=tmp_path / "nowhere" / "x.html", report=lambda what, seconds: pytest.fail(what))


@FULL
def test_a_model_that_cannot_be_written_is_kept(tool, csv, kept):
    Path("full").symlink_to("/dev/full")
    result = tool("fit", csv, "-m", "product", "-o", "full", code=1)
    (path,) = kept.glob("latentbits-*/full")
    assert f"error: cannot write full: No space left on device; kept as {path}\n" in result.stderr
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert latentbits.load(path).n_features_in_ == 6
    assert Path("full").is_symlink()
    assert stat.S_ISCHR(os.stat("full").st_mode)


@FULL
def test_tables_that_cannot_be_written_are_kept_and_results_are_printed(tool, csv, model, ready, kept, monkeypatch):
    monkeypatch.setenv("LATENTBITS_CACHE", str(kept / "cache"))
    Path("full.csv").symlink_to("/dev/full")
    items = ("-m", "item-response", "-o", "t.safetensors", "--items", "full.csv")
    result = tool("fit", ready("item-response"), *items, code=1)
    (path,) = kept.glob("latentbits-*/full.csv")
    assert f"kept as {path}\n" in result.stderr
    assert path.read_text().startswith("item,discrimination")
    assert "discrimination" in result.stdout  # the table of items
    assert latentbits.load("t.safetensors").n_features_in_ == 6
    monkeypatch.setattr(tempfile, "tempdir", str(kept / "nowhere"))
    result = tool("score", model, csv, "--per-row", "full.csv", "--json", code=1)
    (path,) = (kept / "cache").glob("kept/latentbits-*/full.csv")
    assert f"kept as {path}\n" in result.stderr
    assert f'"per_row": "{path}"' in result.stdout


@pytest.mark.slow("a process with a limit on files")
def test_a_disk_without_room_for_anything(csv, tmp_path):
    """A limit on the size of files stands for it; there is then no room elsewhere either."""
    code = """
import resource, sys
import jax, latentbits.estimators.files
from latentbits.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
main()
"""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", str(csv), "-m", "product", "-o", "m.safetensors"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment, "TMPDIR": str(tmp_path), "LATENTBITS_CACHE": "off"},
        check=False,
    )
    assert done.returncode == 1
    assert "error: cannot write m.safetensors: File too large; there is no room elsewhere either\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [csv]


@pytest.mark.slow("a search and its figures")
@FULL
def test_figures_and_pages_that_fail_cost_nothing_else(tool, write_csv, few, kept, monkeypatch):
    """And a name that matplotlib would take for mathematics is a name."""
    drawn = []

    def fail(found):
        raise RuntimeError("no\nink")

    def draw(figure, path):
        figure.draw_without_rendering()
        drawn.append(path)
        return path

    monkeypatch.setattr("latentbits.plot.map", fail)
    monkeypatch.setattr("latentbits.plot.save_figure", draw, raising=False)
    data = write_csv("bits.csv", few, (r"$\frac{$", "milk", "eggs", "wings", "fins", "legs"))
    Path("x.html").symlink_to("/dev/full")
    options = ("--model", "mixture", "--budget", "none", "--out", "x.html", "--figures", "drawn")
    result = tool("explore", data, *options, code=1)
    assert drawn == [Path(f"drawn/{name}.png") for name in ("explore", "loadings", "table", "misfit")]
    assert "error: the figure drawn/map.png could not be drawn: no ink\n" in result.stderr
    assert "held-out rows" in result.stdout
    (page,) = kept.glob("latentbits-*/x.html")
    assert f"Page: {page}\nFigure: drawn/explore.png\n" in result.stdout
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")


def test_a_pipe_gets_the_rows(tool, model):
    import threading

    os.mkfifo("rows.csv")
    got = []
    reader = threading.Thread(target=lambda: got.append(Path("rows.csv").read_text()))
    reader.start()
    tool("sample", model, "-n", 3, "-o", "rows.csv")
    reader.join()
    assert np.loadtxt(got[0].splitlines()[1:], delimiter=",").shape == (3, 6)


def test_numbers_of_errors_are_not_printed():
    assert in_one_line(PermissionError(13, "Permission denied", "x")) == "Permission denied: 'x'"
