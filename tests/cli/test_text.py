"""Names, cells and files of a user are text on the terminal, whatever they hold and whatever it can show."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path
from unicodedata import category

import click
import jax
import jax.numpy as jnp
import pytest
from made import MADE, made, rows_for

from latentbits.cli import console
from latentbits.cli.reports import show_reports, show_table, show_tables
from latentbits.core.printable import printable
from latentbits.estimators.families import family
from latentbits.reports.numbers import Measured
from latentbits.reports.record import Table
from latentbits.reports.summaries.records import Rows

STRANGE = ("income[low]", "income[high]", "a[/b]", ":smile:", "red\x1b[31m", "two\nlines")
FOREIGN = ("größe", "Ω", "日本", "a", "b", "c")


@pytest.fixture
def strange(write_csv, table):
    return write_csv("strange.csv", table, [*STRANGE[:-1], f'"{STRANGE[-1]}"'])


def assert_harmless(text):
    assert [c for c in text if c != "\n" and category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;x\x07", "a\\x1b]0;x\\x07"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("\u202eevil\u2066\u200b\ufeff\xad", "\\u202eevil\\u2066\\u200b\\ufeff\\xad"),
        ("a\r\n\tb\u2028", "a\\r\\n\\tb\\u2028"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("C:\\new [bold] ±½ 日本 \u00a0", "C:\\new [bold] ±½ 日本 \u00a0"),
        ("می\u200cشود 👩\u200d🚀", "می\u200cشود 👩\u200d🚀"),  # spelling
        ("a\u200cb\u200d", "a\\u200cb\\u200d"),
    ],
)
def test_what_acts_unseen_is_shown(text, shown):
    assert printable(text) == shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_tables_are_folded_in_terminals_only(monkeypatch, stream):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", stream())
    show_table(["item", "what"], [["a" * 100, "b" * 70], ["c", "1"]], title="Items")
    folded = "a" * 100 not in sys.stdout.getvalue() and "b" * 70 not in sys.stdout.getvalue()
    assert folded == (stream is Terminal)


LONG = tuple(f"During the last two weeks, how often did you feel {i} or were bothered by it" for i in range(40))


def printed_in(width, monkeypatch, show):
    """Lines of what is printed in a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")  # of a dumb one rich takes the width for granted
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", Terminal())
    show()
    return re.sub(r"\x1b\[[0-9;]*m", "", sys.stdout.getvalue()).splitlines()


@pytest.mark.parametrize("name", [*MADE, "chow-liu-tree"])
def test_what_fit_prints_has_room_in_80_columns(name, monkeypatch):
    values = rows_for(name)
    model = made(name) if name in MADE else family(name).cls().fit(values)
    model.__dict__.pop("feature_names_in_", None)
    found = family(name).summaries.summarize(model, Rows(values, LONG[:6]))
    lines = printed_in(80, monkeypatch, lambda: show_tables(found.shown()))
    assert 0 < max(map(len, lines)) <= 80


def test_numbers_are_never_folded_and_columns_come_below(monkeypatch):
    heads = ["item", *(f"slope {i}" for i in range(9))]
    cells = [f"{i}.234 ± 0.123" for i in range(9)]
    columns = {head: [Measured(i + 0.234, 0.123, ".3f")] for i, head in enumerate(heads[1:])}
    table = Table([LONG[0]], columns, title="Items", corner="item")
    lines = printed_in(80, monkeypatch, lambda: show_tables([table]))
    assert max(map(len, lines)) <= 80
    for text in (*heads, *cells):
        assert any(text in line for line in lines)
    assert sum("item" in line for line in lines) == 3
    assert "".join(line for line in lines).count("Items") == 1


def test_a_text_in_the_place_of_a_number_is_folded(monkeypatch):
    lines = printed_in(40, monkeypatch, lambda: show_table(["a", "b"], [[LONG[0], LONG[1]]]))
    assert max(map(len, lines)) <= 40


def test_reports_have_room_in_80_columns(monkeypatch):
    many = {f"quantity_{i}": [0.5] for i in range(12)}
    report = Table([LONG[0]], many, notes=(" ".join(LONG[:3]),))
    found = types.SimpleNamespace(shown=lambda: (report,))
    lines = printed_in(80, monkeypatch, lambda: show_reports({"Items": found}))
    assert max(map(len, lines)) <= 80
    assert all(any(name in line for line in lines) for name in many)


def test_names_in_a_table(tool, strange, ready):
    ready("latent-trait")
    arguments = ("fit", strange, "-m", "latent-trait", "-k", 1, "-o", "m\x1b[31m.safetensors")
    result = tool(*arguments)
    for name in STRANGE:
        assert f"{printable(' '.join(name.split()))} " in result.stdout
    assert "wrote m\\x1b[31m.safetensors" in result.stderr
    assert_harmless(result.output)
    assert [item["item"] for item in tool.json(*arguments)["items"]] == list(STRANGE)


def test_cells_and_files_in_errors(tool, csv):
    Path("bad\x1b[31m.csv").write_text("a,b\n0,1\n1,\x1b[32mgreen\u202e\n")
    result = tool("fit", "bad\x1b[31m.csv", code=1)
    assert "bad\\x1b[31m.csv" in result.stderr
    assert_harmless(result.output)
    for arguments in (("fit", csv, "--no\x1b[31m"), ("no\x1b[31m",), ("--no\x1b[31m",), ("fit", csv, "-k", "\x1b")):
        result = tool(*arguments, code=2)
        assert "\\x1b" in result.stderr
        assert_harmless(result.output)


def test_warnings_and_tracebacks(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with console.show_warnings():
            warnings.warn("of \x1b[31m", UserWarning, stacklevel=1)
        with console.printed_warnings(["x\x1b"]):
            warnings.warn("column 0, which is like 'column 12'", UserWarning, stacklevel=1)
    try:
        raise RuntimeError("of \x1b[31m")
    except RuntimeError as error:
        console.show_traceback(type(error), error, error.__traceback__)
    printed = capsys.readouterr().err
    assert printed.startswith("warning: of \\x1b[31m\nwarning: 'x\\x1b', which is like 'column 12'\nTraceback")
    assert printed.endswith("RuntimeError: of \\x1b[31m\n")


@pytest.mark.parametrize("kind", ["machine", "device"])
def test_out_of_memory_is_one_line(tool, csv, monkeypatch, kind):
    def fail(*arguments, **options):
        if kind == "machine":
            raise MemoryError("Unable to allocate 93. GiB\nand more")
        jnp.zeros(10**15).block_until_ready()

    monkeypatch.setattr("latentbits.cli.compare.load_rows", fail)
    result = tool("compare", csv, code=1)
    assert result.stderr.startswith("error: out of memory (")
    assert result.stderr.endswith("): take fewer rows, columns or components, or a machine with more\n")
    assert result.stderr.count("\n") == 1
    debug = tool("--debug", "compare", csv, code=1)
    assert isinstance(debug.exception, MemoryError if kind == "machine" else jax.errors.JaxRuntimeError)


def test_other_errors_of_jax_are_mistakes_of_ours(tool, csv, monkeypatch):
    def fail(*arguments, **options):
        raise jax.errors.JaxRuntimeError("INTERNAL: no kernel")

    monkeypatch.setattr("latentbits.cli.compare.load_rows", fail)
    assert isinstance(tool("compare", csv, code=1).exception, jax.errors.JaxRuntimeError)


# --- terminals that cannot show all characters ---


def run(folder, cache, encoding, *commands):
    """Bytes of stdout and stderr of these commands, one after the other in a process; none may fail."""
    code = f"""
import sys
from latentbits.cli.main import main
for arguments in {[[str(word) for word in command] for command in commands]!r}:
    sys.argv = ["latentbits", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        cwd=folder,
        env={**os.environ, "LATENTBITS_CACHE": str(cache), "PYTHONIOENCODING": encoding},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow("a process")
def test_an_encoding_without_some_characters(write_csv, table, tmp_path, process):
    data = write_csv("Ω.csv", table, FOREIGN)
    out, err = run(tmp_path, process.cache, "cp1252", ("fit", data, "-m", "chow-liu-tree", "-o", "Ω.safetensors"))
    assert "größe".encode("cp1252") in out
    assert b"\\u65e5\\u672c" in out
    assert b"wrote \\u03a9.safetensors" in err


@pytest.mark.slow("a process of every command")
def test_every_command_in_ascii(write_csv, few, tmp_path, process):
    data = write_csv("Ω.csv", few, FOREIGN)
    commands = [
        ("fit", data, "-k", 2, "-o", "Ω.safetensors"),
        ("score", "Ω.safetensors", data, "--per-row", "Ωs.csv"),
        ("transform", "Ω.safetensors", data, "-o", "Ωt.csv"),
        ("complete", "Ω.safetensors", data, "-o", "Ωc.csv"),
        ("sample", "Ω.safetensors", "-n", 3, "-o", "Ωx.csv"),
        ("compare", data, "--models", "product,mixture:2"),
        ("data",),
        ("data", "digits"),
        ("data", "carcinoma", "-o", "Ωd.csv"),
        ("reproduce",),
        ("--help",),
        ("explore", data, "--model", "mixture", "--budget", "none", "--out", "Ω.html"),
    ]
    out, err = run(tmp_path, process.cache, "ascii", *commands)
    assert (out + err).isascii()
    assert "±".encode("ascii", "backslashreplace") in out
    assert (tmp_path / "Ω.html").exists()


def test_advice_names_options_that_the_command_has():
    """A clause that names another argument is left out, and what is wrong stays."""
    steep = "the log-likelihood is known to ±0.3 nats only: weight_prior=3, say, makes slopes less steep"
    hints = "Or binarize=0.5, say, takes all numbers above 0.5 as 1.", "Or real=True takes all as real numbers."
    with click.Context(click.Command("explore", params=[click.Option(["--binarize"]), click.Option(["--real"])])):
        assert console.own_advice(steep) == "the log-likelihood is known to ±0.3 nats only"
        assert [console.own_advice(hint) for hint in hints] == list(hints)
    with click.Context(click.Command("fit", params=[click.Option(["--weight-prior"])])):
        assert console.own_advice(steep) == steep
        assert [console.own_advice(hint) for hint in hints] == ["", ""]
        assert console.own_advice("column 'x=1' is constant, a=b.") == "column 'x=1' is constant, a=b."
