"""Gibbs sweeps of a noisy-OR network: sweeps a second, beside plain NumPy and beside NumPyro.

    python benchmarks/noisy_or.py [--rows 2000] [--causes 64] [--children 256] [--rounds 5] [--sweeps 20]
                                  [--device-rows 2000 20000 200000]

One layer of causes, drawn with a fixed seed: each reaches a tenth of the children strongly and the others hardly, and
six of 64 are on.  A sweep draws every cause of every row once, given the others.  First on one core and one thread, in
turns within one process, `rounds` times, in seconds of that core's time; ratios are taken within a round:

- "latentbits": `gibbs`, float32, compiled before it is timed, `sweeps` sweeps in one call;
- "NumPy": for each cause, log(1 - exp(-u)) of the children that are on and -u of the others, with the cause on and with
  it off, for all rows at once, as one writes it first; float32 and float64, one sweep a round;
- "NumPy, blocks": the same for 100 rows after the other, whose arrays stay in the cache;
- "NumPyro", where it is installed: `DiscreteHMCGibbs`, which also draws one binary site after the other given the rest,
  from the log-density of a model; chains of 20 rows side by side, and its time is multiplied.

Others are no peers: tables of conditional probabilities, as pgmpy's and pomegranate's Bayesian networks want them, have
2^64 entries for a child; PGMax has OR factors, but passes messages instead of sampling.

"causes on" is their mean number in a row after 20 sweeps, NumPyro's on its few rows.  Then `gibbs` alone, for growing
numbers of rows, on the device that JAX chooses, with all cores if that is the CPU.  A unit update is the draw of one
cause of one row: a sum over all children.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BURN = 20
FEW = 20
NUMPY_ROWS = 100


class Problem(NamedTuple):
    """Weights (causes, children), biases of children and causes, and rows of children drawn from them."""

    weights: np.ndarray
    leak: np.ndarray
    prior: np.ndarray
    x: np.ndarray


class Contender(NamedTuple):
    """`sweep` makes `sweeps` sweeps and returns the states (rows, causes); seconds are multiplied by `share`."""

    sweep: Callable[[], np.ndarray]
    sweeps: int = 1
    share: float = 1.0


def make_problem(n: int, causes: int, children: int) -> Problem:
    rng = np.random.default_rng(1996)
    weights = 3 * rng.random((causes, children)) * (rng.random((causes, children)) < 0.1)
    weights += 0.02 * rng.random((causes, children))
    leak, prior = np.full(children, 0.01), np.full(causes, 0.1)
    on = rng.random((n, causes)) < -np.expm1(-prior)
    x = rng.random((n, children)) < -np.expm1(-(leak + on @ weights))
    return Problem(weights, leak, prior, x)


# --- NumPy ---


def numpy_sweep(problem: Problem, states: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> None:
    """Every cause once, in place."""
    weights, leak, prior, _ = problem
    odds = np.log(np.expm1(prior))
    u = leak + states @ weights
    for i in range(len(weights)):
        without = u - states[:, i, None] * weights[i]
        with_it = without + weights[i]
        given_off = np.where(x, np.log(1 - np.exp(-without)), -without).sum(1)
        given_on = np.where(x, np.log(1 - np.exp(-with_it)), -with_it).sum(1)
        p = 1 / (1 + np.exp(given_off - given_on - odds[i]))
        states[:, i] = rng.random(len(states), dtype=states.dtype) < p
        u = without + states[:, i, None] * weights[i]


def numpy_(problem: Problem, dtype: type, block: int | None) -> Contender:
    n, causes = len(problem.x), len(problem.weights)
    cast = Problem(*(part.astype(dtype) for part in problem[:3]), problem.x)
    states, rng = np.zeros((n, causes), dtype), np.random.default_rng(0)
    size = block or n

    def sweep() -> np.ndarray:
        with np.errstate(over="ignore"):
            for first in range(0, n, size):
                rows = slice(first, first + size)
                numpy_sweep(cast, states[rows], cast.x[rows], rng)
        return states

    return Contender(sweep)


# --- JAX ---


def latentbits_(problem: Problem, sweeps: int) -> Contender:
    import jax
    import jax.numpy as jnp

    from latentbits.models.noisy_or.gibbs import gibbs
    from latentbits.models.noisy_or.network import Params

    weights, leak, prior = (jnp.asarray(part, jnp.float32) for part in problem[:3])
    params = Params((weights,), (leak, prior))
    on = jnp.asarray(problem.x.T, jnp.float32)
    keys = jax.random.split(jax.random.key(0), len(problem.x))
    start = (jnp.zeros((len(weights), len(problem.x)), jnp.float32),)
    run = jax.jit(lambda states, keys: gibbs(params, on, 1 - on, states, keys, sweeps)).lower(start, keys).compile()
    at = [start, keys]

    def sweep() -> np.ndarray:
        at[0] = run(*at).states
        at[1] = jax.random.wrap_key_data(jax.random.key_data(at[1]) + 1)  # other random numbers in the next call
        return np.asarray(at[0][0]).T

    return Contender(sweep, sweeps)


def numpyro_(problem: Problem, sweeps: int) -> Contender:
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro.distributions import Bernoulli
    from numpyro.infer import HMC, MCMC, DiscreteHMCGibbs

    weights, leak, prior = (jnp.asarray(part, jnp.float32) for part in problem[:3])
    x = jnp.asarray(problem.x[:FEW], jnp.float32)

    def model(x):
        states = numpyro.sample("states", Bernoulli(-jnp.expm1(-prior)))
        numpyro.sample("x", Bernoulli(-jnp.expm1(-(leak + states @ weights))), obs=x)

    def of_row(row, states, key):
        kernel = DiscreteHMCGibbs(HMC(model, num_steps=1, trajectory_length=None))
        chain = MCMC(kernel, num_warmup=0, num_samples=sweeps, progress_bar=False)
        chain.run(key, row, init_params={"states": states})
        return chain.get_samples()["states"][-1]

    run = jax.jit(jax.vmap(of_row))
    at = [jnp.zeros((FEW, len(weights)), int), jax.random.key(0)]

    def sweep() -> np.ndarray:
        at[1] = jax.random.fold_in(at[1], 0)
        at[0] = run(x, at[0], jax.random.split(at[1], FEW))
        return np.asarray(at[0])

    return Contender(sweep, sweeps, len(problem.x) / FEW)


# --- tables ---


def seconds_of(contender: Contender, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds a sweep of all rows."""
    began = clock()
    contender.sweep()
    return contender.share * (clock() - began) / contender.sweeps


def on_one_core(options: argparse.Namespace) -> None:
    """In a process that is tied to a core."""
    problem = make_problem(options.rows, options.causes, options.children)
    made: dict[str, Callable[[], Contender]] = {
        "latentbits": lambda: latentbits_(problem, options.sweeps),
        "NumPy, float32": lambda: numpy_(problem, np.float32, None),
        "NumPy, blocks": lambda: numpy_(problem, np.float32, NUMPY_ROWS),
        "NumPy, float64": lambda: numpy_(problem, np.float64, None),
        "NumPyro": lambda: numpyro_(problem, options.sweeps),
    }
    contenders, causes_on = {}, {}
    for name, make in made.items():
        try:
            contenders[name] = make()
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        for _ in range(-(-BURN // contenders[name].sweeps)):  # compiles, too
            states = contenders[name].sweep()
        causes_on[name] = states.sum(1).mean()
    rounds = [
        {name: seconds_of(one, time.process_time) for name, one in contenders.items()} for _ in range(options.rounds)
    ]
    print(
        f"\n{options.rows} rows, {options.causes} causes, {options.children} children, one core; medians of "
        f"{options.rounds} rounds"
    )
    print(f"{'':<16}{'ms a sweep':>12}{'sweeps/s':>10}{'times ours':>12}{'(from':>8}{'to)':>8}{'causes on':>11}")
    for name in contenders:
        each = np.median([one[name] for one in rounds])
        times = [one[name] / one["latentbits"] for one in rounds]
        spread = f"{np.median(times):>12.1f}{min(times):>8.1f}{max(times):>8.1f}"
        print(f"{name:<16}{1e3 * each:>12.1f}{1 / each:>10.2f}{spread}{causes_on[name]:>11.2f}", flush=True)


def on_device(options: argparse.Namespace) -> None:
    import jax

    device = jax.devices()[0]
    print(f"\n{options.causes} causes, {options.children} children, {device.platform} ({device.device_kind})")
    print(f"{'rows':>16}{'ms a sweep':>12}{'sweeps/s':>10}{'million unit updates/s':>24}")
    for n in options.device_rows:
        contender = latentbits_(make_problem(n, options.causes, options.children), options.sweeps)
        contender.sweep()
        each = min(seconds_of(contender) for _ in range(options.rounds))
        print(f"{n:>16}{1e3 * each:>12.2f}{1 / each:>10.1f}{n * options.causes / each / 1e6:>24.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--causes", type=int, default=64)
    parser.add_argument("--children", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--device-rows", type=int, nargs="*", default=[2000, 20_000, 200_000])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        on_one_core(options)
        return

    def tie() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    alone = {**os.environ, **threads, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child"], env=alone, preexec_fn=tie, check=True)
    on_device(options)


if __name__ == "__main__":
    main()
