"""The options of `latentbits fit` are the constructors' parameters: by name, default, constraint and docstring."""

import inspect
import re

import click
import pytest

import latentbits
from latentbits.cli.main import cli
from latentbits.cli.options import DESTINATIONS, NO_OPTIONS, flag_of, options_of, settings_of
from latentbits.estimators.families import families, family

FAMILIES = pytest.mark.parametrize("record", list(families()), ids=lambda one: one.name)


@FAMILIES
def test_every_parameter_is_an_option(record):
    options = {option.name: option for option in options_of(record)}
    names = set(inspect.signature(record.cls).parameters) - set(NO_OPTIONS)
    parameters = {DESTINATIONS.get(name, name) for name in names}
    assert parameters | set(record.files) | ({"errors"} if record.errors else set()) == set(options)
    assert all(option.help and option.help != "." for option in options.values())
    words = [flag for option in options.values() for flag in option.opts]
    assert len(words) == len(set(words))


@FAMILIES
def test_defaults_are_the_constructors(record, asked):
    expected = record.cls(random_state=0, verbose=1).get_params()
    if record.usual_size is not None:
        expected[record.size] = record.usual_size
    assert asked("-m", record.name) == expected


def flags(record):
    return {flag for option in options_of(record) for flag in option.opts if flag.startswith("--")}


@pytest.mark.parametrize("name", ["mixture", "noisy-or"])
def test_help_is_of_one_family(name, tool):
    text = tool("fit", "--model", name, "--help").stdout
    shown = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.MULTILINE))
    own = flags(family(name))
    assert own <= shown
    assert not (set().union(*map(flags, families())) - own) & shown


def test_help_without_a_model_lists_all(tool):
    text = tool("fit", "--help").stdout
    assert all(re.search(rf"^ +{record.name} ", text, re.MULTILINE) for record in families())
    assert "--smoothing" not in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "-m mixture -k 3 --smoothing 0.5 --init split --restarts 2 --max-iter 5 --max-time 9 --tol 1e-4 --seed 4 "
            "--binarize 0.5 --dtype float64",
            {
                "n_components": 3, "smoothing": 0.5, "init": "split", "n_init": 2, "max_iter": 5, "max_time": 9.0,
                "tol": 1e-4, "random_state": 4, "binarize": 0.5, "dtype": "float64",
            },
        ),
        (
            "-m clipped-gaussian -k positive --noise none --no-bias --correction 0 --extraction factors --repair "
            "--likelihood ep --keep-pairs yes",
            {
                "n_components": "positive", "noise": "none", "bias": False, "correction": 0, "extraction": "factors",
                "repair": True, "likelihood": "ep", "keep_pairs": True,
            },
        ),
        (
            "-m combination-machine -k 3 --learner pursuit --epochs 7 --no-input-bias --weight-prior none",
            {"n_hidden": 3, "learner": "pursuit", "n_epochs": 7, "input_bias": False, "weight_prior": None},
        ),
        (
            "-m binary-sparse-coding -k 3 --max-active auto --candidates 3 --recipe henniges2010 --restarts 3",
            {
                "n_causes": 3, "max_active": "auto", "n_candidates": 3, "recipe": "henniges2010", "n_init": 3,
            },
        ),
        (
            "-m latent-trait -k 1 --method monte_carlo --samples 20 --rounds 2 --nodes 7 --plain --weight-prior 2.5 "
            "--noise shared",
            {
                "n_components": 1, "method": "monte_carlo", "n_samples": 20, "n_rounds": 2, "n_nodes": 7,
                "accelerate": False, "weight_prior": 2.5, "noise": "shared",
            },
        ),
        (
            "-m item-response -k 2 --item-model 3PL --population free --asymptote-prior none",
            {"n_factors": 2, "model": "3PL", "population": "free", "asymptote_prior": None},
        ),
        ("-m trait-maps --maps 3 -k 1 --nodes 7", {"n_maps": 3, "n_components": 1, "n_nodes": 7}),
        ("-m curved-trait -k 1 --epochs 3 --nodes 7", {"n_components": 1, "n_epochs": 3, "n_nodes": 7}),
        (
            "-m noisy-or --layers 7,3,2 --recipe lewicki1996 --no-bias --tol 0.01 --leak 0.01 --prior 1,2 "
            "--sampling 3,20 --annealing 8,50",
            {
                "layer_sizes": (7, 3, 2), "recipe": "lewicki1996", "bias": False, "tol": 0.01, "leak": 0.01,
                "prior": (1, 2), "sampling": (3, 20), "annealing": (8, 50),
            },
        ),
    ],
)  # fmt: skip
def test_options_reach_the_estimator(asked, words, expected):
    made = asked(*words.split())
    assert {key: made[key] for key in expected} == expected


def test_a_file_brings_the_settings_it_needs():
    record = family("clipped-gaussian")
    words = ["x.csv", "-m", record.name, "--correlations", "c.csv"]
    with click.Context(cli, **cli.context_settings) as parent:  # or its names of help would stay unknown to the command
        params = cli.commands["fit"].make_context("fit", words, parent).params
    assert settings_of(record, params)["keep_pairs"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-m mixture -k 0", "no number from 1"),
        ("-m mixture --smoothing -1", "'-1' is neither a number from 0 nor auto"),
        ("-m mixture --tol x", "no number"),
        ("-m mixture -k parallel", "'parallel' is no number from 1"),
        ("-m mixture --init data", "'data' is not one of 'random', 'anneal', 'split'"),
        ("-m mixture --max-active 2", "is for --model combination-machine and binary-sparse-coding, not mixture"),
        (
            "-m mixture --learner pursuit",
            "is for --model clipped-gaussian and combination-machine, not mixture",
        ),
        ("-m mixture --errors", "is for --model item-response and clipped-gaussian, not mixture."),
        ("-m mixture --layers 3", "--layers is for --model noisy-or, not mixture"),
        ("-m latent-trait --nodes 61", "no number"),
        ("-m latent-trait -k positive", "'positive' is no number from 1 to 32"),
        (
            "-m latent-trait --smoothing 2",
            "for --model product, chow-liu-tree, latent-tree and mixture, not",
        ),
        ("-m clipped-gaussian -k 0", "'0' is neither a number from 1 nor one of parallel and positive"),
        (
            "-m clipped-gaussian --nodes 5",
            "is for --model latent-trait, item-response, curved-trait and trait-maps, not clipped-gaussian",
        ),
        ("-m combination-machine --learner paper", "'paper' is not one of 'auto', 'gradient'"),
        ("-m binary-sparse-coding --candidates few", "neither a number from 1 nor auto"),
        ("-m binary-sparse-coding --recipe theirs", "'theirs' is not one of 'ours', 'henniges2010'"),
        ("-m noisy-or --layers 10,x", "'10,x' is no list of numbers from 1"),
        ("-m noisy-or --layers 10,0", "'10,0' is no list of numbers from 1"),
        ("-m product -k 3", "clipped-gaussian, combination-machine and binary-sparse-coding, not product."),
    ],
)
def test_what_is_not_understood(tool, csv, words, message):
    assert message in " ".join(tool("fit", csv, *words.split(), code=2).stderr.split())


def test_names_of_options():
    assert flag_of("layer_sizes", size="layer_sizes") == "--layers"
    assert flag_of("n_init") == "--restarts"
    assert set(latentbits.__all__) >= {record.class_name for record in families()}
