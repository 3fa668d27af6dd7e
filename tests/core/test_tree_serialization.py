"""Trees as JSON and arrays: forged ones reach nothing but classes of this library, each of its kind."""

from __future__ import annotations

import numpy as np
import pytest
from tests.models.steps import unchecked

from latentbits.core.model import Stop
from latentbits.core.tree_serialization import pack, unpack
from latentbits.engines.checkpoint import Checkpoint
from latentbits.engines.monitor import Limits
from latentbits.models.mixture.model import Params


def test_records_enumerations_and_dataclasses_come_back():
    tree = {
        "stop": Stop.CONVERGED,
        "place": Checkpoint("x", 3.0),
        "params": unchecked(Params, np.ones(2), np.eye(2)),
        "all": [1, ()],
    }
    again = unpack(*pack(tree))
    assert again["stop"] is Stop.CONVERGED
    assert again["place"] == tree["place"]
    np.testing.assert_array_equal(again["params"].means, np.eye(2))
    assert again["all"] == [1, ()]


@pytest.mark.parametrize(
    "name",
    [
        "subprocess:Popen",
        "latentbits.core.tree_serialization:jax.version.subprocess.Popen",
        "latentbits.core.tree_serialization:Enum",
        "latentbits.core.tree_serialization:unpack",
        "latentbits.core.tree_serialization:nothing",
        "latentbits.engines.checkpoint:Journal",
        "latentbits.core.model:Stop.__class__",
    ],
)
@pytest.mark.parametrize("kind", ["record", "enum", "module"])
def test_forged_names_reach_nothing(name, kind):
    forged = {"record": {"record": name, "fields": [["true"]]}, "enum": {"enum": name, "value": ["true"]}}
    with pytest.raises(ValueError, match="is no "):
        unpack(forged.get(kind, {"module": name, "fields": {}}), [])


def test_records_hold_what_their_annotations_say():
    packed, arrays = pack(Limits(3, 1e-3, None))
    assert unpack(packed, arrays) == Limits(3, 1e-3, None)
    for place, wrong in ((0, 1.5), (0, True), (1, "1"), (2, {"tuple": []})):
        forged = {**packed, "fields": [*packed["fields"]]}
        forged["fields"][place] = wrong
        with pytest.raises(ValueError, match=r"Limits.* cannot be a"):
            unpack(forged, arrays)


def test_dataclasses_have_the_fields_of_their_class():
    packed, arrays = pack(unchecked(Params, np.ones(2), np.eye(2)))
    for fields in ({}, {**packed["fields"], "more": 1}):
        with pytest.raises(ValueError, match="other fields"):
            unpack({**packed, "fields": fields}, arrays)


@pytest.mark.parametrize("name", ["O", "(9,9)f8", "datetime64"])
def test_types_are_of_numbers(name):
    with pytest.raises(ValueError, match="no type of numbers"):
        unpack({"dtype": name}, [])


def test_an_empty_dictionary_is_nothing():
    with pytest.raises(ValueError, match="nothing that could be unpacked"):
        unpack({}, [])
