"""Values handed on: from one update to the next (`State`), and from both to a pass over the rows (`Shared`)."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import Array, namespace
from latentbits.core.model import Progress
from latentbits.core.module import Module
from latentbits.core.secants import Secants
from latentbits.models.noisy_or import enumeration
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.settings import Settings

__all__ = ["Shared", "State", "done", "first_state", "prepare"]


class State(Module):
    """Memory that an update hands to the next."""

    layer: Int[Array, ""]  # the hidden layer that is learned, from 1; one more than there are, where all are
    step: Int[Array, ""]  # updates in this stage
    since: Int[Array, ""]  # updates since idle units were put to new use
    rows: Float[Array, ""]  # most rows that an update of this stage had
    pivots: tuple[Int[Array, " _"], ...]  # a child of each cause, by which it may be split
    average: tuple[tuple[Array, ...], ...]  # trials and successes of weights and biases, averaged over the last updates
    change: tuple[Float[Array, " _"], ...]  # for each hidden unit, the probability of a change in the last updates
    met: tuple[Float[Array, " _"], ...]  # in how many rows each unit was observed, in all updates of this stage
    # for each hidden unit, nats that it was good for in an update, averaged as its trials are
    gain: tuple[Float[Array, " _"], ...]
    # for each layer, nats that the least probable bits without a cause cost in the last update
    level: tuple[Float[Array, ""], ...]


class Shared(Module):
    """Values that a pass needs and no row changes."""

    depth: Int[Array, ""]  # hidden layers in use: in the paper's learning all, else those learned so far
    n_sweeps: Int[Array, ""]
    penalised: Bool[Array, ""]  # whether the objective has the prior of the weights
    pivots: tuple[Int[Array, " _"], ...]
    level: tuple[Float[Array, ""], ...]
    log_prior: tuple[Float[Array, " _"], ...]  # of all states of each layer, where they are summed over


def first_state(net: Settings, layer: Int[Array, ""] | int, params: Params) -> State:
    """Start with nothing seen yet, and layer `layer` to learn; one more than there are for all of them."""
    xp = namespace(params.biases[0])
    weights, biases = (tuple(map(xp.zeros_like, values)) for values in (params.weights, params.biases))
    return State(
        layer=xp.asarray(layer),
        step=xp.asarray(0),
        since=xp.asarray(0),
        rows=xp.asarray(0.0),
        pivots=tuple(xp.zeros(len(w), "int32") for w in params.weights),
        average=(weights, weights, biases, biases),
        change=tuple(xp.ones(size) for size in net.layer_sizes),
        met=biases,
        gain=tuple(xp.zeros(size) for size in net.layer_sizes),
        level=tuple(xp.asarray(0.0) for _ in net.layer_sizes),
    )


def done(net: Settings, state: State) -> Array:
    """Decide whether a stage has made its updates."""
    return state.step >= namespace(state.step).where(state.layer > net.n_layers, net.n_joint, net.n_updates)


def prepare(net: Settings, params: Params, state: State | Secants | None, progress: Progress | None) -> Shared:
    """Prepare what a pass needs; without a state, for a pass of a fitted network."""
    xp = namespace(params.biases[0])
    state = state if isinstance(state, State) else first_state(net, net.n_layers + 1, params)
    together = (state.layer > net.n_layers) & (not net.paper)  # states of a whole network take longer to find
    summed = net.exact_means if progress is None else net.exact_end or net.exact_all
    return Shared(
        depth=xp.minimum(net.n_layers if net.paper else state.layer, net.n_layers).astype("int32"),
        penalised=xp.asarray(net.exact_all) | ((state.layer > net.n_layers) & net.exact_end),
        n_sweeps=xp.where(together, 2 * net.n_sweeps, net.n_sweeps).astype("int32"),
        pivots=state.pivots,
        level=state.level,
        log_prior=enumeration.log_prior(params) if summed else (),
    )
