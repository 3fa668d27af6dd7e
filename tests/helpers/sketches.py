"""Small models that put the `Model` record to the test before the five families are built.

Each is the least that shows one hard case: a Gibbs chain per row with fresh samples at every pass, a partition function
with an optimiser that takes steps back, minibatches, and adaptive quadrature with one Newton step a pass.  They are
written for clarity and live in the tests: nothing here is shipped.
"""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from latentbits.core.model import Iterate, LogLikelihood, Measure, Model, Schedule
from latentbits.core.module import Module
from latentbits.core.special import log1mexp, log_cosh
from latentbits.core.states import all_states
from latentbits.core.tree import sum_rows


class Point(Module):
    mean: Float[Array, "rows latents"]
    mode: Float[Array, "rows latents"]


def _log_sum(x):
    return jax.nn.logsumexp(x, axis=-1)


# ---------------------------------------------------------------- sampled: one layer of noisy-OR causes
# A Gibbs chain per row, kept from pass to pass or begun again; `age` tells the E-step how much burn-in is due.


class NoisyOrParams(Module):
    prior: Float[Array, " causes"]
    W: Float[Array, "causes columns"]
    bias: Float[Array, " columns"]


class NoisyOrStats(Module):
    n_rows: Float[Array, ""]
    log_joint: Float[Array, "2"]
    s: Float[Array, " causes"]
    share: Float[Array, "causes columns"]


@cache
def noisy_or(n_causes=3, sweeps=3, burn_in=8):
    def init(key, summary):
        d = len(summary.mean)
        W = jax.random.uniform(key, (n_causes, d), minval=0.2, maxval=1.0)
        return NoisyOrParams(jnp.full(n_causes, 0.3), W, jnp.full(d, 0.05))

    def prepare(params, state, progress):
        return None

    def log_likelihood_given(params, x, s):
        u = params.bias + s @ params.W
        return jnp.where(x > 0, log1mexp(u), -u).sum(-1)

    def start_rows(params, shared, batch):
        s = jax.vmap(lambda k: jax.random.bernoulli(k, 0.5, (n_causes,)))(batch.keys)
        return {"s": s.astype(batch.values.dtype), "age": jnp.zeros(len(batch.weight), jnp.int32)}

    def sweep(params, batch, s, number):
        for i in range(n_causes):
            on, off = s.at[:, i].set(1), s.at[:, i].set(0)
            gain = log_likelihood_given(params, batch.values, on) - log_likelihood_given(params, batch.values, off)
            gain = gain + jnp.log(params.prior[i]) - jnp.log1p(-params.prior[i])
            keys = jax.vmap(lambda k, i=i: jax.random.fold_in(k, number * n_causes + i))(batch.keys)
            u = jax.vmap(jax.random.uniform)(keys).astype(s.dtype)
            s = s.at[:, i].set((u < jax.nn.sigmoid(gain)).astype(s.dtype))
        return s

    def e_step(params, shared, batch, row_state):
        s, age = row_state["s"], row_state["age"]
        need = sweeps + jnp.where(jnp.max(age) == 0, burn_in, 0)
        s = jax.lax.fori_loop(0, need, lambda j, s: sweep(params, batch, s, j + 1), s)
        w = batch.weight[:, None]
        u = params.bias + s @ params.W
        # share of cause i in column j being on: the E-step of Lewicki & Sejnowski's eq. 9
        credit = batch.values / -jnp.expm1(-u) * w
        f = -jnp.expm1(-params.W)
        prior = s * jnp.log(params.prior) + (1 - s) * jnp.log1p(-params.prior)
        stats = NoisyOrStats(
            n_rows=batch.weight.sum(),
            log_joint=sum_rows(batch.weight, log_likelihood_given(params, batch.values, s) + prior.sum(1)),
            s=(s * w).sum(0),
            share=f * (s.T @ credit),
        )
        return stats, {"s": s, "age": age + 1}

    def update(state, params, shared, stats, progress):
        f = jnp.clip(stats.share / (1.5 + stats.s[:, None]), 1e-4, 1 - 1e-4)
        prior = jnp.clip(stats.s / stats.n_rows, 0.01, 0.99)
        return state, NoisyOrParams(prior, -jnp.log1p(-f), params.bias)

    def exact(params, batch):
        S = jnp.asarray(all_states(n_causes), batch.values.dtype)
        prior = S @ jnp.log(params.prior) + (1 - S) @ jnp.log1p(-params.prior)
        return log_likelihood_given(params, batch.values[:, None, :], S[None]) + prior, S

    def infer(params, shared, batch):
        joint, S = exact(params, batch)
        return Point(jax.nn.softmax(joint) @ S, S[jnp.argmax(joint, 1)])

    def sample(params, shared, keys):
        def one(key):
            a, b = jax.random.split(key)
            s = jax.random.bernoulli(a, params.prior).astype(params.W.dtype)
            return jax.random.bernoulli(b, -jnp.expm1(-(params.bias + s @ params.W))).astype(s.dtype)

        return jax.vmap(one)(keys)

    return Model(
        name="noisy-OR sketch",
        init=init,
        prepare=prepare,
        e_step=e_step,
        update=update,
        objective=lambda p, s, stats: stats.log_joint.sum(),
        log_likelihood=lambda p, s, b: LogLikelihood.exact(_log_sum(exact(p, b)[0])),
        infer=infer,
        decode=lambda p, z: -jnp.expm1(-(p.bias + z @ p.W)),
        complete=lambda p, s, b: -jnp.expm1(-(p.bias + infer(p, s, b).mean @ p.W)),
        sample=sample,
        row_floats=lambda n_columns: 4 * n_columns + 8 * n_causes,
        start_rows=start_rows,
        stages=(Schedule("Gibbs EM", measure=Measure.JOINT, comparable=False, max_iter=20),),
    )


# ---------------------------------------------------------------- partition function and steps back: an exact RBM
# log Z and its gradient are no sums over rows: `prepare` has them.  The optimiser doubles its step after a success and,
# when the next pass shows that it went too far, goes back to where it was and tries a shorter one.


class RBMParams(Module):
    W: Float[Array, "hidden columns"]
    theta: Float[Array, " hidden"]


class RBMStats(Module):
    n_rows: Float[Array, ""]
    score: Float[Array, "2"]
    gradient: RBMParams


def _log_z(params):
    H = jnp.asarray(all_states(params.W.shape[0]), params.W.dtype)
    terms = H @ params.theta + (np.log(2) + log_cosh(H @ params.W)).sum(1)
    return jax.nn.logsumexp(terms)


def _rbm_score(params, batch):
    x = 2 * batch.values - 1
    return jax.nn.softplus(x @ params.W.T + params.theta).sum(1)


@cache
def rbm(n_hidden=2, learner="backtracking"):
    def init(key, summary):
        W = 0.3 * jax.random.normal(key, (n_hidden, len(summary.mean)))
        return RBMParams(W, jnp.zeros(n_hidden))

    def prepare(params, state, progress):
        log_z, gradient = jax.value_and_grad(_log_z)(params)
        return {"log_z": log_z, "gradient": gradient}

    def e_step(params, shared, batch, row_state):
        gradient = jax.grad(lambda p: jnp.sum(batch.weight * _rbm_score(p, batch)))(params)
        stats = RBMStats(batch.weight.sum(), sum_rows(batch.weight, _rbm_score(params, batch)), gradient)
        return stats, None

    def objective(params, shared, stats):
        return stats.score.sum() - stats.n_rows * shared["log_z"]

    def gradient_of(shared, stats):
        return jax.tree.map(lambda a, b: a / stats.n_rows - b, stats.gradient, shared["gradient"])

    def start_backtracking(params):
        zero = jax.tree.map(jnp.zeros_like, params)
        return {"value": -jnp.inf, "params": params, "gradient": zero, "step": 1.0, "back": jnp.asarray(0)}

    def backtracking(state, params, shared, stats, progress):
        value, gradient = objective(params, shared, stats), gradient_of(shared, stats)
        good = value >= state["value"]
        pick = lambda new, old: jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)  # noqa: E731
        kept = {
            "value": jnp.where(good, value, state["value"]),
            "params": pick(params, state["params"]),
            "gradient": pick(gradient, state["gradient"]),
            "step": jnp.where(good, 2.0, 0.25) * state["step"],
            "back": state["back"] + jnp.where(good, 0, 1),
        }
        return kept, jax.tree.map(lambda p, g: p + kept["step"] * g, kept["params"], kept["gradient"])

    optimiser = optax.adam(0.05)

    def adam(state, params, shared, stats, progress):
        downhill = jax.tree.map(jnp.negative, gradient_of(shared, stats))
        change, state = optimiser.update(downhill, state, params)
        return state, optax.apply_updates(params, change)

    def infer(params, shared, batch):
        p = jax.nn.sigmoid((2 * batch.values - 1) @ params.W.T + params.theta)
        return Point(p, jnp.round(p))

    def decode(params, z):
        return jax.nn.sigmoid(2 * z @ params.W)

    def sample(params, shared, keys):
        H = jnp.asarray(all_states(n_hidden), params.W.dtype)
        terms = H @ params.theta + log_cosh(H @ params.W).sum(1)

        def one(key):
            a, b = jax.random.split(key)
            h = H[jax.random.categorical(a, terms)]
            return jax.random.bernoulli(b, jax.nn.sigmoid(2 * h @ params.W)).astype(params.W.dtype)

        return jax.vmap(one)(keys)

    minibatch = learner == "minibatch"
    stage = Schedule("Adam", rows_per_update=100, max_iter=20) if minibatch else Iterate("ascent", patience=6)
    return Model(
        name="RBM sketch",
        init=init,
        prepare=prepare,
        e_step=e_step,
        update=adam if minibatch else backtracking,
        objective=objective,
        log_likelihood=lambda p, s, b: LogLikelihood.exact(_rbm_score(p, b) - s["log_z"]),
        infer=infer,
        decode=decode,
        complete=lambda p, s, b: decode(p, infer(p, s, b).mean),
        sample=sample,
        row_floats=lambda n_columns: n_columns + 4 * n_hidden,
        start=optimiser.init if minibatch else start_backtracking,
        stages=(stage,),
    )


# ---------------------------------------------------------------- adaptive quadrature: a one-dimensional latent trait
# The row state is the centre and the spread of the row's nodes; each pass takes one Newton step towards the mode (a
# cold start takes many), and the update is a Newton step on each column.


class TraitParams(Module):
    w: Float[Array, " columns"]
    b: Float[Array, " columns"]


class TraitStats(Module):
    n_rows: Float[Array, ""]
    log_likelihood: Float[Array, "2"]
    gradient: Float[Array, "columns 2"]
    curvature: Float[Array, "columns 2 2"]


@cache
def trait(n_nodes=7):
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(n_nodes)

    def init(key, summary):
        m = jnp.clip(summary.mean, 0.02, 0.98)
        return TraitParams(jnp.full_like(m, 0.5), jnp.log(m) - jnp.log1p(-m))

    def newton(params, batch, z):
        p = jax.nn.sigmoid(z[:, None] * params.w + params.b)
        slope = (batch.mask * (batch.values - p)) @ params.w - z
        curvature = (batch.mask * p * (1 - p)) @ params.w**2 + 1
        return z + slope / curvature, curvature

    def start_rows(params, shared, batch):
        z = jnp.zeros(len(batch.weight), batch.values.dtype)
        z = jax.lax.fori_loop(0, 10, lambda i, z: newton(params, batch, z)[0], z)
        return {"z": z}

    def quadrature(params, batch, z, precision):
        t = z[:, None] + jnp.asarray(nodes, z.dtype) / jnp.sqrt(precision)[:, None]
        a = t[:, :, None] * params.w + params.b
        log_bits = (batch.mask[:, None] * (batch.values[:, None] * a - jax.nn.softplus(a))).sum(-1)
        log_weight = jnp.log(jnp.asarray(node_weights, z.dtype)) + jnp.asarray(nodes**2 / 2, z.dtype) - t**2 / 2
        log_weight = log_weight - np.log(2 * np.pi) / 2 - jnp.log(precision)[:, None] / 2
        return t, log_bits + log_weight

    def e_step(params, shared, batch, row_state):
        z, precision = newton(params, batch, row_state["z"])
        t, joint = quadrature(params, batch, z, precision)
        log_likelihood = _log_sum(joint)
        q = jnp.exp(joint - log_likelihood[:, None]) * batch.weight[:, None]
        p = jax.nn.sigmoid(t[:, :, None] * params.w + params.b)
        error = batch.mask[:, None] * (batch.values[:, None] - p)
        spread = batch.mask[:, None] * p * (1 - p)
        basis = jnp.stack([t, jnp.ones_like(t)], -1)
        stats = TraitStats(
            n_rows=batch.weight.sum(),
            log_likelihood=sum_rows(batch.weight, log_likelihood),
            gradient=jnp.einsum("nq,nqd,nqk->dk", q, error, basis),
            curvature=jnp.einsum("nq,nqd,nqk,nql->dkl", q, spread, basis, basis),
        )
        return stats, {"z": z}

    def update(state, params, shared, stats, progress):
        step = jnp.linalg.solve(stats.curvature + 1e-6 * jnp.eye(2), stats.gradient[..., None])[..., 0]
        return state, TraitParams(params.w + step[:, 0], params.b + step[:, 1])

    def centred(params, batch):
        z = start_rows(params, None, batch)["z"]
        z, precision = newton(params, batch, z)
        return quadrature(params, batch, z, precision)

    def infer(params, shared, batch):
        t, joint = centred(params, batch)
        mean = jnp.sum(jax.nn.softmax(joint) * t, 1)[:, None]
        return Point(mean, start_rows(params, shared, batch)["z"][:, None])

    def complete(params, shared, batch):
        t, joint = centred(params, batch)
        p = jax.nn.sigmoid(t[:, :, None] * params.w + params.b)
        return jnp.einsum("nq,nqd->nd", jax.nn.softmax(joint), p)

    def sample(params, shared, keys):
        def one(key):
            a, b = jax.random.split(key)
            p = jax.nn.sigmoid(jax.random.normal(a, dtype=params.w.dtype) * params.w + params.b)
            return jax.random.bernoulli(b, p).astype(p.dtype)

        return jax.vmap(one)(keys)

    return Model(
        name="latent trait sketch",
        init=init,
        prepare=lambda params, state, progress: None,
        e_step=e_step,
        update=update,
        objective=lambda p, s, stats: stats.log_likelihood.sum(),
        log_likelihood=lambda p, s, b: LogLikelihood.exact(_log_sum(centred(p, b)[1])),
        infer=infer,
        decode=lambda p, z: jax.nn.sigmoid(z * p.w + p.b),
        complete=complete,
        sample=sample,
        row_floats=lambda n_columns: 3 * n_nodes * n_columns,
        start_rows=start_rows,
        stages=(Iterate("quadrature EM", patience=3),),
    )
