"""A quick run of a paper beside the full one that comes with the package."""

from __future__ import annotations

import math

import pytest

from latentbits.papers import pages, summary


def agrees_with_kept(results):
    """Some findings are in both, and none of them disagrees."""
    both, apart = compared(results["relations"], summary.in_package(results["paper"])["relations"])
    assert both
    assert apart == {}


def follows(measured, name):
    """Check that the findings of the full run are those that its numbers give, and all that there are."""
    kept = summary.in_package(name)["relations"]
    assert set(measured) == set(kept) == set(pages.expected(f"latentbits.papers.{name}")["relations"])
    again = {key: one["measured"] for key, one in pages.judge(kept, measured).items()}
    assert again == pytest.approx({key: one["measured"] for key, one in kept.items()})


def compared(quick, kept):
    """Findings that both have, and those of them that disagree: by four standard errors, and outside of our range.

    What a clock measured is left out: machines differ.
    """
    both = [key for key in quick if key in kept and not quick[key].get("timed")]
    apart = {key: (quick[key]["measured"], kept[key]["measured"]) for key in both if _apart(quick[key], kept[key])}
    return both, apart


def _apart(quick, kept):
    error = math.hypot(quick["error"] or 0.0, kept["error"] or 0.0)
    return not (quick["within"] or abs(quick["measured"] - kept["measured"]) <= 4 * error)
