"""The legs of learning: layer by layer, or all at once, and in the end all layers together."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from jax.tree_util import Partial

from latentbits.core import secants
from latentbits.core.arrays import Array, namespace
from latentbits.core.model import Evaluate, Iterate, Measure, Schedule, Stage, Transform
from latentbits.core.secants import Secants
from latentbits.models.noisy_or import accelerated_em
from latentbits.models.noisy_or.e_step import estimated, summed
from latentbits.models.noisy_or.initialisation import add_layer
from latentbits.models.noisy_or.settings import Settings
from latentbits.models.noisy_or.state import first_state
from latentbits.models.noisy_or.update import climb

__all__ = ["Plan", "stages_of"]


class Plan(NamedTuple):
    """Settings of the stages, which no compiled function knows."""

    n_epochs: int  # passes for each layer in the paper's
    batch_size: int = 2000  # rows for an update
    ranked: bool = False  # whether the last stage estimates log p(x) where it cannot be summed, to rank restarts
    first_layer: int = 1  # layers below this one have been learned already


def stages_of(net: Settings, plan: Plan) -> tuple[Stage, ...]:
    """List the stages of learning, in their order."""
    stages: list[Stage] = []
    if net.at_once:
        stages.append(_learning(net, plan, net.n_layers + 1, "all layers", plan.n_epochs * net.n_layers))
    for layer in () if net.at_once else range(plan.first_layer, net.n_layers + 1):
        if layer > 1 and not net.paper:
            stages.append(Transform(f"a new layer {layer}", partial(add_layer, net, layer)))
        stages.append(_learning(net, plan, layer, f"layer {layer}", plan.n_epochs if net.paper else net.n_updates))
    start = Partial(first_state, net, net.n_layers + 1)
    if net.exact_end:
        e_step = None if net.exact_all else Partial(summed, net)
        stages.append(
            Iterate(
                "all layers, exactly",
                start=accelerated_em.start,
                e_step=e_step,
                update=Partial(climb, net),
                done=_never,
                left=secants.left,
            )
        )
    elif not net.paper:
        stages.append(_learning(net, plan, net.n_layers + 1, "all layers", net.n_joint))
    if plan.ranked and not net.exact_end:
        stages.append(Evaluate("evaluation", start=start, e_step=Partial(estimated, net)))
    return tuple(stages)


def _learning(net: Settings, plan: Plan, layer: int, name: str, max_iter: int) -> Iterate | Schedule:
    """Make the stage that learns one layer, or all of them (`layer` is one more than there are)."""
    start = Partial(first_state, net, layer)
    if net.exact_all and not net.paper:  # every stage is exact EM
        return Iterate(name, start=start, max_iter=max_iter)
    return Schedule(
        name,
        measure=Measure.LIKELIHOOD if net.exact_all else Measure.JOINT,
        start=start,
        max_iter=max_iter,
        rows_per_update=plan.batch_size,
        comparable=False,
    )


def _never(state: Secants) -> Array:
    return namespace(state.value).asarray(False)  # exact EM ends when it has converged
