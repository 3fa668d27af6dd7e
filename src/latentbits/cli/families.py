"""The models that `latentbits fit` knows: the options that are theirs, and the estimators that these make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

__all__ = ["LEARNERS", "OWN_OPTIONS", "STARTS", "WORDS", "new_estimator", "refuse_foreign"]

# The options that not every model has; the others refuse them.
OWN_OPTIONS: dict[str, tuple[str, ...]] = {
    "mixture": ("components", "smoothing", "init"),
    "product": ("smoothing",),
    "latent-trait": (
        "components",
        "method",
        "equal_discrimination",
        "weight_prior",
        "samples",
        "nodes",
        "plain",
        "errors",
        "items",
    ),
    "clipped-gaussian": (
        "components",
        "noise",
        "no_bias",
        "correction",
        "extraction",
        "repair",
        "likelihood",
        "correlations",
        "errors",
        "items",
    ),
    "combination-machine": ("components", "kind", "learner", "epochs", "no_input_bias", "items"),
    "binary-sparse-coding": ("components", "max_active", "candidates", "init", "init_sparseness", "items"),
    "noisy-or": ("layers", "learner", "no_bias", "items"),
}
STARTS = {"mixture": ("random", "split"), "binary-sparse-coding": ("random", "mean", "data")}
LEARNERS = {
    "combination-machine": ("auto", "gradient", "pursuit", "pursuit+gradient", "stochastic"),
    "noisy-or": ("auto", "robust", "paper"),
}
WORDS = ("parallel", "positive")  # for a number of components, of a clipped Gaussian alone


def refuse_foreign(context: click.Context, model: str) -> None:
    """An option of another model would be without effect: better to say so."""
    for name in sorted({name for names in OWN_OPTIONS.values() for name in names} - set(OWN_OPTIONS[model])):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            *others, last = (other for other, names in OWN_OPTIONS.items() if name in names)
            able = f"{', '.join(others)} and {last}" if others else last
            raise click.UsageError(f"--{name.replace('_', '-')} is for --model {able}, not {model}.")
    size = context.params["components"]
    if size in WORDS and model != "clipped-gaussian":
        raise click.UsageError(f"--components {size} is for --model clipped-gaussian; {model} needs a number.")
    start, starts = context.params["init"], STARTS.get(model)
    if starts is not None and start not in starts:
        raise click.UsageError(f"--init {start} is not for --model {model}, which has {', '.join(starts)}.")
    learner, ways = context.params["learner"], LEARNERS.get(model)
    if ways is not None and learner not in ways:
        raise click.UsageError(f"--learner {learner} is not for --model {model}, which has {', '.join(ways)}.")


def new_estimator(model: str, own: Mapping[str, Any]) -> tuple[Any, str]:
    """The estimator with the options of its own, and its name in a sentence."""
    if model == "mixture":
        from latentbits.estimators.mixture import BernoulliMixture

        k = own["components"] or 8
        return BernoulliMixture(k, init=own["init"], smoothing=own["smoothing"]), f"a mixture of {k}"
    if model == "product":
        from latentbits.estimators.product import BernoulliProduct

        return BernoulliProduct(smoothing=own["smoothing"]), "independent bits"
    if model == "combination-machine":
        from latentbits.estimators.combination_machine import CombinationMachine

        m, bias = own["components"] or 8, not own["no_input_bias"]
        machine = CombinationMachine(
            m, kind=own["kind"], learner=own["learner"], n_epochs=own["epochs"], input_bias=bias
        )
        return machine, f"a combination machine of {m} unit{'s' if m > 1 else ''}"
    if model == "binary-sparse-coding":
        from latentbits.estimators.binary_sparse_coding import BinarySparseCoding

        h = own["components"] or 10
        code = BinarySparseCoding(
            h,
            max_active=own["max_active"],
            n_candidates=own["candidates"],
            init=own["init"],
            init_sparseness=own["init_sparseness"],
        )
        return code, f"binary sparse coding with {h} cause{'s' if h > 1 else ''}"
    if model == "noisy-or":
        from latentbits.estimators.noisy_or import NoisyOrNetwork

        sizes, learner = own["layers"], "robust" if own["learner"] == "auto" else own["learner"]
        network = NoisyOrNetwork(sizes, learner=learner, bias=not own["no_bias"])
        return (
            network,
            f"a noisy-OR network of {' and '.join(map(str, sizes))} hidden unit{'s' if sizes != (1,) else ''}",
        )
    if model == "clipped-gaussian":
        from latentbits.estimators.clipped_gaussian import ClippedGaussian

        names = ("noise", "correction", "extraction", "repair", "likelihood")
        size = own["components"] or 2
        pairs = True if own["correlations"] is not None else "auto"  # a file of correlations is of all pairs
        clipped = ClippedGaussian(
            size, bias=not own["no_bias"], keep_pairs=pairs, **{name: own[name] for name in names}
        )
        words = {"parallel": "parallel analysis", "positive": "all positive components", "1": "1 component"}
        return clipped, f"a clipped Gaussian ({words.get(str(size), f'{size} components')})"
    from latentbits.estimators.latent_trait import LatentTrait

    q = own["components"] or 2
    estimator = LatentTrait(
        q,
        method=own["method"],
        equal_discrimination=own["equal_discrimination"],
        weight_prior=own["weight_prior"],
        n_samples=own["samples"],
        n_nodes=own["nodes"],
        accelerate=not own["plain"],
    )
    return estimator, "1 latent trait" if q == 1 else f"{q} latent traits"
