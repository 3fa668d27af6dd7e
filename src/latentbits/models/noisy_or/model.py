"""Multilayer noisy-OR belief networks (Lewicki & Sejnowski 1996), learned by Gibbs sampling and EM.

`equations.py` has the paper's equations as they stand; the README of the paper says where each is made fast.

Layers are learned from the bottom up (section 4).  In the paper's learning all are sampled from the beginning, and
those above the layer that is adapted keep the weights of their random start.  In ours, while layer l is learned, the
layers above it have no weights, and the biases of layer l are the prior probabilities of its units; when the next layer
comes, most of that is left to it.

Beyond the paper, too: idle units are put to new use as learning goes on (`reseed_units.py`), and at the end all layers
are adapted together, where there are few units by exact EM (`accelerated_em.py`), otherwise with statistics averaged
over the updates, so that the noise of the samples goes away (Delyon, Lavielle & Moulines 1999).

The record is put together here.  Its parts: `settings.py`, `recipes.py`, `initialisation.py` (first parameters),
`state.py` (kept from pass to pass), `e_step.py`, `update.py`, `stages.py`, and `inference.py` (answers of a fitted
network on rows).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jax.tree_util import Partial

from latentbits.core.model import Model
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.e_step import objective, sampled, summed
from latentbits.models.noisy_or.inference import Posterior, complete, decode, infer, log_likelihood, sample
from latentbits.models.noisy_or.initialisation import init, keeping_layers
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.recipes import OURS, Recipe
from latentbits.models.noisy_or.settings import Settings, is_exact
from latentbits.models.noisy_or.stages import Plan, stages_of
from latentbits.models.noisy_or.state import done, first_state, prepare
from latentbits.models.noisy_or.update import update

__all__ = ["Params", "Posterior", "is_exact", "keeping_layers", "model"]


@cache
def model(
    layer_sizes: tuple[int, ...],
    *,
    bias: bool = True,
    leak: float = 1e-3,
    alpha: float = 1.0,
    beta: float = 1.5,
    recipe: Recipe = OURS,
    n_updates: int = 120,
    n_joint: int = tuning.JOINT_UPDATES,
    n_sweeps: int = 15,
    n_samples: int = 1,
    n_chains: int = 16,
    n_steps: int = 100,
    **plan: Any,
) -> Model:
    """Make a noisy-OR network; `Settings` and `Plan` say what can be set."""
    net = Settings(
        layer_sizes,
        bias,
        recipe.schedule,
        recipe.inference,
        n_chains,
        leak,
        None if alpha == 1 else alpha,
        beta,
        n_updates,
        n_joint,
        n_sweeps,
        n_samples,
        n_steps,
    )
    n_hidden = sum(net.layer_sizes)
    n_states = 2 ** net.layer_sizes[0] if net.exact_end or net.exact_all else 0
    return Model(
        name="noisy-OR network",
        init=Partial(init, net),
        prepare=Partial(prepare, net),
        e_step=Partial(summed if net.exact_all else sampled, net),
        update=Partial(update, net),
        objective=Partial(objective, net),
        log_likelihood=Partial(log_likelihood, net),
        infer=Partial(infer, net),
        decode=decode,
        complete=Partial(complete, net),
        sample=sample,
        row_floats=lambda n_columns: 6 * (n_columns + n_hidden) + min(2 * n_states, 2048),
        start=Partial(first_state, net, net.n_layers + 1),
        done=None if net.paper else Partial(done, net),
        stages=stages_of(net, Plan(recipe.n_epochs, **plan)),
        on_host=net.exact_means or not net.exact_all,  # log p(S) of very many states is a program
    )
