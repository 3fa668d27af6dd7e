"""Combination machines beside scikit-learn's BernoulliRBM, and on the binary density-estimation sets.

    python benchmarks/combination_machine.py peers [digits nltcs plants jester dna] [--hidden 8 16] [--jobs 2]
    python benchmarks/combination_machine.py density [nltcs plants ...] [--hidden 32 64 100 ...]

`peers`: the same number of hidden units and the same rows.  scikit-learn's learning rate and number of epochs are tuned
on the validation rows, by their exact log-likelihood, which it cannot tell itself: its machine is handed to ours, which
sums over all hidden states.  Times are of one fit: ours in a warm process and with compilation, scikit-learn's with the
settings that won (all settings together take as much longer).

`density`: the number of hidden units is chosen on the validation rows; the test rows are looked at once.  Where the
states are too many, log Z is annealed, and its standard error is stated.  A GPU helps here.

Needs the sets: from the network, or from the folder that LATENTBITS_DATA names.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM

from latentbits import CombinationMachine, load_dataset

RATES, EPOCHS = (0.001, 0.01, 0.05, 0.1), (20, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["peers", "density"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--hidden", type=int, nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--epochs", type=int, nargs="+", default=[None])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.what == "peers":
        for name in options.names or ["digits", "nltcs", "plants", "jester", "dna"]:
            for m in options.hidden or [8, 16]:
                beside_scikit_learn(name, m, options.jobs, options.seed)
    else:
        for name in options.names or ["nltcs", "plants", "dna", "jester", "msnbc"]:
            density(name, options.hidden or [16, 32, 64, 100], options.epochs, options.seed)


def parts_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to learn from, to choose by, and to test on."""
    if name == "digits":  # bundled with scikit-learn, which has no parts
        bits = (load_digits().data > 7).astype(np.uint8)
        rest, test = train_test_split(bits, test_size=0.25, random_state=0)
        train, valid = train_test_split(rest, test_size=0.1, random_state=0)
        return train, valid, test
    data = load_dataset(name)
    train, valid, test = (data.split(part).X for part in ("train", "valid", "test"))
    return train, valid, test


def as_machine(rbm: BernoulliRBM) -> CombinationMachine:
    """scikit-learn's machine, whose inputs are 0 and 1, as one with inputs -1 and +1."""
    w = rbm.components_ / 2
    return CombinationMachine.from_parameters(
        w, rbm.intercept_hidden_ + w.sum(1), rbm.intercept_visible_ / 2 + np.zeros(w.shape[1])
    )


def fit_rbm(train: np.ndarray, m: int, rate: float, epochs: int, seed: int) -> tuple[BernoulliRBM, float]:
    began = time.perf_counter()
    rbm = BernoulliRBM(m, learning_rate=rate, n_iter=epochs, random_state=seed).fit(train)
    return rbm, time.perf_counter() - began


def beside_scikit_learn(name: str, m: int, jobs: int, seed: int) -> None:
    train, valid, test = parts_of(name)
    tries = [(rate, epochs) for rate in RATES for epochs in EPOCHS]
    fits = Parallel(n_jobs=jobs)(delayed(fit_rbm)(train, m, rate, epochs, seed) for rate, epochs in tries)
    machines = [as_machine(rbm) for rbm, _ in fits]
    won = int(np.argmax([machine.score(valid) for machine in machines]))
    theirs = machines[won].score_samples(test)
    seconds = []
    for _ in range(2):  # the first fit compiles
        began = time.perf_counter()
        ours = CombinationMachine(m, random_state=seed).fit(train)
        seconds.append(time.perf_counter() - began)
    rows = ours.score_samples(test)
    ahead = rows - theirs
    print(
        f"{name} m = {m}: ours {rows.mean():.3f}, BernoulliRBM {theirs.mean():.3f} (rate {tries[won][0]}, "
        f"{tries[won][1]} epochs; by default {default_score(train, test, m, seed):.3f}); ahead by {ahead.mean():.3f} ± "
        f"{ahead.std() / np.sqrt(len(ahead)):.3f} nats per row; seconds: ours {seconds[1]:.1f} (with compilation "
        f"{seconds[0]:.1f}), BernoulliRBM {fits[won][1]:.1f} (all settings {sum(t for _, t in fits):.0f})",
        flush=True,
    )


def default_score(train: np.ndarray, test: np.ndarray, m: int, seed: int) -> float:
    return as_machine(BernoulliRBM(m, random_state=seed).fit(train)).score(test)


def density(name: str, sizes: list[int], epochs: list[int | None], seed: int) -> None:
    train, valid, test = parts_of(name)
    tried = []
    for m in sizes:
        for n_epochs in epochs:
            began = time.perf_counter()
            machine = CombinationMachine(m, n_epochs=n_epochs, random_state=seed).fit(train)
            score = machine.score(valid)
            tried.append((score, machine))
            print(
                f"  {name} {m:4d} units, {machine._learner()}, {n_epochs or 'default'} epochs: valid {score:.3f}, "
                f"log Z ± {machine.log_partition_error_:.3f} ({machine.log_partition_effective_:.2f} effective), "
                f"{time.perf_counter() - began:.0f} s",
                flush=True,
            )
    best = max(tried, key=lambda pair: pair[0])[1]
    rows = best.score_samples(test)
    print(
        f"{name}: test {rows.mean():.3f} ± {rows.std() / np.sqrt(len(rows)):.3f} nats per row ({best.n_hidden} units, "
        f"log Z ± {best.log_partition_error_:.3f})",
        flush=True,
    )


if __name__ == "__main__":
    main()
