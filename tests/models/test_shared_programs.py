"""Models that differ in numbers alone are the same programs, called with other arguments."""

from __future__ import annotations

import jax
import pytest
from jax.tree_util import Partial

from latentbits.core.model import Model, Transform
from latentbits.models.binary_sparse_coding import model as sparse_coding
from latentbits.models.binary_sparse_coding.recipes import OURS
from latentbits.models.combination_machine import model as machines
from latentbits.models.combination_machine.recipes import FREUND


def programs(model):
    """What is compiled of a model and its stages: of every function all but its numbers, and what types these have."""
    found = {}
    own = ("prepare", "e_step", "update", "objective", "start", "start_rows", "done", "left", "row_floats")
    for place, record, names in [("model", model, Model._fields)] + [
        (f"{i}: {stage.name}", stage, own)
        for i, stage in enumerate(model.stages)
        if not isinstance(stage, Transform)  # works on the host
    ]:
        for name in names:
            function = getattr(record, name, None)
            if callable(function):
                tree = function if isinstance(function, Partial) else Partial(function)
                found[place, name] = jax.tree.structure(tree), [type(leaf) for leaf in jax.tree.leaves(tree)]
    return found


def machine(**settings):
    return machines.model(3, **{"learner": "pursuit+gradient", "weight_prior": 3.0, "n_updates": 400} | settings)


MACHINES = [
    {"learning_rate": 0.2},
    {"n_epochs": 7},
    {"n_updates": None},
    {"held_out": 0.25},
    {"weight_prior": 0.5},
    {"weight_prior": None},
    {"annealing": (512, 77)},
]


@pytest.mark.parametrize("numbers", MACHINES, ids=str)
def test_machines_that_differ_in_numbers_share_their_programs(numbers):
    for kind in ("pursuit+gradient", "stochastic"):
        one, other = machine(learner=kind), machine(learner=kind, **numbers)
        assert one is not other
        assert programs(one) == programs(other)
    one, other = (machine(learner="gradient", recipe=FREUND, **x) for x in ({}, numbers))
    assert programs(one) == programs(other)


def test_stages_of_a_machine_share_what_they_have_in_common():
    """Batches, the climb and the evaluation have one E-step, whatever each holds out."""
    found = programs(machine(held_out=0.2))
    steps = [found[place] for place in found if place[1] == "e_step" and "pursuit" not in place[0]]
    assert len(steps) >= 3
    assert all(step == steps[0] for step in steps)


SCHEDULES = [
    {"n_iter": 7},
    {"recipe": OURS._replace(cut=(3, 5))},
    {"recipe": OURS._replace(init_sparseness=1.5)},
    {"recipe": OURS._replace(init_scale=0.3)},
    {"recipe": OURS._replace(parameter_noise=0.01)},
    {"recipe": OURS._replace(temperature=1.0)},
    {"quietest": 1e-3},
]


@pytest.mark.parametrize("numbers", SCHEDULES, ids=str)
@pytest.mark.parametrize("settling", [False, True])
def test_sparse_codes_that_differ_in_numbers_share_their_programs(numbers, settling):
    sizes = (4, 4, 4) if settling else (6, 2, 4)
    one, other = (sparse_coding.model(*sizes, settling=settling, **x) for x in ({}, numbers))
    assert one is not other
    assert programs(one) == programs(other)


def test_what_is_no_number_makes_another_program():
    """The comparison can tell: other sizes and kinds have functions of their own."""
    assert programs(machine()) != programs(machine(kind="real"))
    assert programs(machine()) != programs(machine(input_bias=False))
    assert programs(sparse_coding.model(6, 2, 4)) != programs(sparse_coding.model(6, 2, 5))
    for change in ({"ranking": "exact"}, {"noise_about": "old"}):
        assert programs(sparse_coding.model(6, 2, 4)) != programs(sparse_coding.model(6, 2, 4, OURS._replace(**change)))
