"""The record of a clipped Gaussian."""

from __future__ import annotations

import pytest

from latentbits.models.clipped_gaussian.model import model


def test_numbers_are_no_part_of_compiled_functions():
    """Models that differ in numbers only hand the same functions to an engine."""
    one, other = model(2, correction=0.5), model(2, correction=0.25)
    for name in ("init", "prepare", "e_step", "objective", "log_likelihood", "infer", "decode", "complete", "sample"):
        assert getattr(one, name) is getattr(other, name), name
    for name in ("prepare", "update"):
        assert getattr(one.stages[0], name) is getattr(other.stages[0], name), name


def test_learning_by_likelihood_needs_noise():
    with pytest.raises(ValueError, match="needs noise='unique'"):
        model(1, noise="none", learner="likelihood")
    with pytest.raises(ValueError, match="'positive' leaves no noise"):
        model("positive", learner="likelihood")
