"""The options of `latentbits fit` are the constructors' parameters: by name, default, constraint and docstring."""

import inspect
import re

import click
import pytest

import latentbits
from latentbits.cli.main import cli
from latentbits.cli.options import NO_OPTIONS, flag_of, options_of, settings_of
from latentbits.estimators.families import families, family

FAMILIES = pytest.mark.parametrize("record", list(families()), ids=lambda one: one.name)


def parsed(record, *words):
    """What the command would be called with."""
    command = cli.commands["fit"]
    return command.make_context("fit", ["x.csv", "--model", record.name, *map(str, words)]).params


@FAMILIES
def test_every_parameter_is_an_option(record):
    options = {option.name: option for option in options_of(record)}
    parameters = set(inspect.signature(record.cls).parameters) - set(NO_OPTIONS)
    assert parameters | set(record.files) | ({"errors"} if record.errors else set()) == set(options)
    assert all(option.help and option.help != "." for option in options.values())
    flags = [flag for option in options.values() for flag in option.opts]
    assert len(flags) == len(set(flags))


@FAMILIES
def test_defaults_are_the_constructors(record):
    made = record.cls(**settings_of(record, parsed(record)), verbose=1).get_params()
    expected = record.cls(random_state=0, verbose=1).get_params()
    if record.usual_size is not None:
        expected[record.size] = record.usual_size
    assert made == expected


@FAMILIES
def test_help_is_of_one_family(record, tool):
    text = tool("fit", "--model", record.name, "--help").stdout
    shown = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.MULTILINE))
    own = {flag for option in options_of(record) for flag in option.opts if flag.startswith("--")}
    assert own <= shown
    for other in families():
        theirs = {flag for option in options_of(other) for flag in option.opts if flag.startswith("--")}
        assert not (theirs - own) & shown, other.name


def test_help_without_a_model_lists_all(tool):
    text = tool("fit", "--help").stdout
    assert all(re.search(rf"^ +{record.name} ", text, re.MULTILINE) for record in families())
    assert "--smoothing" not in text


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        (
            "clipped-gaussian",
            ("-k", "parallel", "--no-bias", "--keep-pairs", "yes"),
            {"bias": False, "keep_pairs": True},
        ),
        ("combination-machine", ("--weight-prior", "none", "-k", 3), {"weight_prior": None, "n_hidden": 3}),
        ("binary-sparse-coding", ("--cut", "5,9", "--max-active", "auto"), {"cut": (5, 9), "max_active": "auto"}),
        ("latent-trait", ("--plain", "--nodes", 7), {"accelerate": False, "n_nodes": 7}),
        ("noisy-or", ("--layers", "4, 2", "--leak", 0.01), {"layer_sizes": (4, 2), "leak": 0.01}),
    ],
)
def test_values_reach_the_constructor(name, words, expected):
    record = family(name)
    made = record.cls(**settings_of(record, parsed(record, *words))).get_params()
    assert {key: made[key] for key in expected} == expected


def test_a_file_brings_the_settings_it_needs():
    record = family("clipped-gaussian")
    assert settings_of(record, parsed(record, "--correlations", "c.csv"))["keep_pairs"] is True


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mixture", ("-k", 0)),
        ("mixture", ("--smoothing", -1)),
        ("latent-trait", ("--nodes", 61)),
        ("mixture", ("--tol", "x")),
    ],
)
def test_what_the_constructor_refuses_is_refused(name, words):
    with pytest.raises(click.BadParameter, match=r"no number|neither a number"):
        parsed(family(name), *words)


def test_names_of_options():
    assert flag_of("layer_sizes", size="layer_sizes") == "--layers"
    assert flag_of("n_init") == "--restarts"
    assert set(latentbits.__all__) >= {record.class_name for record in families()}
