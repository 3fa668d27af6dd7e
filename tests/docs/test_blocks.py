"""Every block of every page is tried: Python is run, commands are understood, what is printed is compared."""

from __future__ import annotations

import re
import shlex
import tomllib
from contextlib import suppress

import click
import pytest
from benchmarks.peers.__main__ import command_line
from blocks import LONG, NOTEBOOK, REAL, ROOT, SHORTER, blocks, commands, pages, printed, python_blocks
from click.testing import CliRunner
from printed import same_but_for_the_last_digit

from latentbits.cli.main import cli

PAGES = pages()
FOLLOWED = "docs/add-a-model.md"  # test_add_a_model.py runs its Python and its commands, with the model that it adds
DIRECTIVES = ("{image}", "{include}", "{literalinclude}", "{toctree}")  # no code; Sphinx complains where they fail
NOT_TRIED = {
    ("docs/design.md", "fit "): "which function calls which, drawn with words",
    ("docs/combination-machine.md", "40 units"): "printed by a block that takes long, and is run with fewer epochs",
    (
        "docs/tutorial-neurons.md",
        "neurons at once",
    ): "shares of rows that are drawn, as the text says",
}
# Sessions on sets that come with the package are run; bars.csv and patients.csv are tables of the reader's.
BUNDLED = ("lsat6", "lsat7", "digits")


def sessions():
    return [block for page in PAGES for block in blocks(page) if not block.info and block.text.startswith("$ ")]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_left_untried(page):
    compared = set(printed(page).values())
    for block in blocks(page):
        where = f"{page}:{block.line}: nothing tries this block"
        if block.info == "python":
            assert page in {*LONG, *REAL, NOTEBOOK, FOLLOWED}, where
        elif block.info == "{code-block} python":
            assert page in SHORTER, where
        elif block.info == "text":
            known = any(page == one and block.text.startswith(start) for one, start in NOT_TRIED)
            assert (block.text in compared) != known, where
        elif not block.info:
            for line in commands(block):
                assert page == FOLLOWED or understood(line), f"{where}: {line}"
        else:
            assert block.info.split()[0] in DIRECTIVES, where


def test_exceptions_are_on_their_pages():
    for page, start in NOT_TRIED:
        assert any(block.text.startswith(start) for block in blocks(page))
    for page, others in SHORTER.items():
        long = "".join(block.text for block in blocks(page) if block.info == "{code-block} python")
        assert all(old in long for old in others), page
    assert all(python_blocks(page) for page in {*LONG, *REAL} - {"docs/explorer.md"})


# --- commands ---


def understood(line):
    """Whether a command line is one that can be typed: programs and targets that there are, options that they have."""
    if "_LATENTBITS_COMPLETE=" in line:
        return re.search("=(bash|zsh|fish)_source latentbits", line) is not None  # tests/cli/test_completion.py
    program, *words = shlex.split(line)
    if program == "latentbits":
        parsed(words)
        return True
    if program == "make":
        return TARGETS.issuperset(words)
    if [program, *words[:2]] == ["python", "-m", "benchmarks.peers"]:
        command_line().parse_args(words[2:])
        return True
    return program == "pip" and words[0] == "install" and EXTRAS.issuperset(extras(words[-1]))


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
TARGETS = set(re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[0].split())


def extras(requirement):
    name, _, asked = requirement.removesuffix("]").partition("[")
    assert name in (PROJECT["name"], ".")
    return asked.split(",") if asked else []


def parsed(words):
    """What click makes of the words; it raises where they are no command, option or value."""
    whole = click.Context(cli, info_name="latentbits", **cli.context_settings)  # click keeps the first names of help
    if words[0].startswith("-"):
        return cli.make_context("latentbits", list(words))
    name, command, rest = cli.resolve_command(whole, list(words))
    return command.make_context(name, rest, parent=whole)


def test_what_is_no_command_is_not_understood():
    assert understood("latentbits fit answers.csv -k 3 --restarts 20")
    assert understood("pip install -e '.[plot,tables]'")
    assert understood("make docs")
    assert not understood("make nonsense")
    assert not understood("pip install 'latentbits[nonsense]'")
    assert not understood("rm answers.csv")
    for line in ("latentbits fits x.csv", "latentbits fit x.csv --nonsense", "latentbits sizes x.csv --sizes no"):
        with pytest.raises(click.UsageError):
            understood(line)


@pytest.mark.parametrize("page", PAGES)
def test_commands_within_sentences_are_understood(page):
    """Words in capitals stand for others, and arguments may be left out; the changelog tells what there was."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for line in re.findall(r"`latentbits ([^`\n]+)`", text):
        if page not in (FOLLOWED, "CHANGELOG.md") and not re.search(r"\.\.\.|\b[A-Z]{4,}\b", line):
            with suppress(click.MissingParameter, click.exceptions.Exit):  # --help ends here
                parsed(shlex.split(line))


@pytest.mark.slow("fits of public sets")
@pytest.mark.parametrize("block", [one for one in sessions() if one.text.split()[3] in BUNDLED], ids=str)
def test_sessions_print_what_the_page_shows(block, tmp_path, monkeypatch):
    """Line by line, in this order; dots stand for lines, and ends of lines, that are left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENTBITS_DATA", raising=False)
    (line,) = commands(block)
    result = CliRunner().invoke(cli, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    lines = iter(result.output.splitlines())
    for shown in block.text.splitlines()[1:]:
        if shown.strip() not in ("", "..."):
            start = shown.removesuffix("  ...")
            until = None if start == shown else len(start)
            assert any(same_but_for_the_last_digit(found[:until], start) for found in lines), (shown, result.output)
