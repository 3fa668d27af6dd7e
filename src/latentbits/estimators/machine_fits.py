"""Fits of combination machines: learning again where chains could not follow, log Z, and what either leaves to say."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from latentbits.core.model import Stop, Summary
from latentbits.core.tree import double, to_numpy
from latentbits.engines.fit import FitResult, seed_key
from latentbits.engines.passes import Engine
from latentbits.engines.summary import summarise
from latentbits.estimators.criteria import WithFitReport
from latentbits.models.combination_machine import model as machines
from latentbits.models.combination_machine.ascent import REFIT
from latentbits.models.combination_machine.largest import largest_moments
from latentbits.models.combination_machine.machine import UNITS, Params, machine_of
from latentbits.models.combination_machine.partition import n_enumerated
from latentbits.models.combination_machine.recipes import recipe_of
from latentbits.models.combination_machine.truncation import sparse_moments
from latentbits.models.combination_machine.tuning import AGAIN_MOST_TIMES, STOCHASTIC_RATE

__all__ = ["MachineFits"]


class MachineFits(WithFitReport):
    """The part of a combination machine that learns."""

    n_hidden: int
    kind: str
    input_bias: bool
    learner: str
    learning_rate: float | None
    validation_fraction: float | str
    weight_prior: float | str | None
    max_active: int | None
    recipe: Any
    annealing: Any
    params_: Any
    log_partition_error_: float
    log_partition_effective_: float
    left_out_: float
    left_out_error_: float

    _shortened: float = 1.0  # of the step size, while a machine is learned again
    _n_rows: float = np.inf  # of the table, where it matters to the way of learning

    def _known(
        self,
        weights: Any,
        hidden_bias: Any,
        input_bias: Any,
        random_state: Any,
        annealing: tuple[int, int] | None = None,
        precision: Any = 0.0,
    ) -> Params:
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        values = (np.asarray(x, np.float64) for x in (weights, hidden_bias, input_bias, 0.0, 0.0, 1.0, precision))
        with double():
            params = Params(*(jnp.asarray(x) for x in values))
            known = machines.with_log_partition(
                UNITS[self.kind],
                seed_key(seed, "log Z"),
                params,
                *(annealing or self._annealing()),
                max_active=self._most_active(),
            )
        return to_numpy(known)

    def _annealing(self) -> tuple[int, int]:
        """Return `annealing`; complain of what is no pair of counts."""
        counts = tuple(int(x) if isinstance(x, Integral) and not isinstance(x, bool) else 0 for x in self.annealing)
        if len(counts) != 2 or counts[0] < 2 or counts[1] < 1:
            raise ValueError(
                f"annealing must be a number of chains from 2 and one of temperatures from 1, got {self.annealing!r}"
            )
        return counts

    def _most_active(self) -> int | None:
        return None if self.max_active is None else min(int(self.max_active), int(self.n_hidden))

    def _few_terms(self) -> list[str]:
        """Name the settings by which some terms of Z are summed in place of all."""
        given = {"max_active": self.max_active, "max_terms": recipe_of(self.recipe).max_terms}
        return [name for name, value in given.items() if value is not None]

    def _learner(self) -> str:
        """Decide `learner` where it is "auto"."""
        n_states = n_enumerated(UNITS[self.kind], int(self.n_hidden), self.n_features_in_)
        some = self._few_terms()
        if len(some) > 1:
            raise ValueError("max_active and max_terms are two ways to sum fewer states: give one of them")
        if self.learner == "auto":
            return "pursuit+gradient" if n_states <= 16 or some else "stochastic"
        if some and "gradient" not in self.learner:
            raise ValueError(f"{some[0]} needs learner='gradient' or 'pursuit+gradient', got {self.learner!r}")
        if "gradient" in self.learner and not some and n_states > machines.most_enumerated() + 2:
            raise ValueError(
                f"learner={self.learner!r} sums 2^{n_states} states at every step, which is too many: use "
                "learner='stochastic', or max_active to sum some of them only"
            )
        return self.learner

    def _adopt(self, result: FitResult) -> None:
        params = result.params
        if result.history and result.history[-1].stage == machines.RANKING:  # users see that of all rows
            history = result.history[:-1]
            result = result._replace(history=history, objective=history[-1].objective)
        if np.isnan(params.log_partition):  # learning was cut short before its last stage
            with double():
                params = machines.learned_machine(params, result.state)
                params = machines.without_idle(params) if self._learner() == "pursuit" else params
            arrays = params.weights, params.hidden_bias, params.input_bias
            known = self._known(*arrays, self.random_state, precision=params.precision)
            result = result._replace(params=known)
        super()._adopt(result)

    def _finish(self, engine: Engine, result: FitResult) -> None:
        self._warn_of_few_chains()
        if self.max_active is not None and "gradient" in self._learner():
            self.left_out_, self.left_out_error_ = self._left_out(min(int(self.max_active), int(self.n_hidden)))
        if (n_terms := recipe_of(self.recipe).max_terms) is not None:
            self.left_out_, self.left_out_error_ = self._not_in_terms(n_terms)

    @property
    def _double_rows(self) -> int:
        """All of them where a climb ends by what is left to gain: in float32 it stands still far from there."""
        # In float32 the terms of a log-likelihood, of either sign, hide gains of 1e-6 nats a row: of 20 tables of 240
        # rows, 17 had up to 0.21 nats left, and 0.002 stated.  So all rows are in float64 where a climb ends by gain.
        by_gain = "gradient" in self._learner() and recipe_of(self.recipe).optimizer == "adam"
        return 2**32 if by_gain and self._held_out is None and self._share() == 0 else 0

    def _share(self) -> float:
        """Decide `validation_fraction` where it is "auto"."""
        if self.validation_fraction != "auto":
            return float(self.validation_fraction)
        n_weights = int(self.n_hidden) * self.n_features_in_
        return 0.0 if self.weight_prior == "auto" and self._n_rows < n_weights else 0.1

    @property
    def _rows_have_stopped(self) -> bool:
        """Whether held-out rows have ended its learning; with a prior of their choice all are learned from after it."""
        return REFIT in self.history_table_["stage"] if self.weight_prior == "auto" else self._share() > 0

    def _learn(self, engine: Engine, seed: int, dtype: np.dtype, max_time: float | None) -> float:
        """Learn; and again in shorter steps, if chains could not follow and the machine ran away from them."""
        stochastic = self._learner() == "stochastic"
        if not stochastic and "auto" == self.weight_prior == self.validation_fraction:
            self._n_rows = float(summarise(engine).n_rows)
        if not stochastic or not self.input_bias:
            return super()._learn(engine, seed, dtype, max_time)
        summary = summarise(engine)
        bias, independent = self._independent(summary)
        seconds, found = 0.0, []
        try:
            for again in range(AGAIN_MOST_TIMES + 1):
                # a machine that ran away from its chains is learned again with a fifth of its step size, twice at most
                self._shortened = 0.2**again
                left = None if max_time is None else max(max_time - seconds, 1e-3)
                seconds += super()._learn(engine, seed, dtype, left)
                unsure = 3 * self.log_partition_error_ * float(summary.n_rows)
                if Stop(self.stop_reason_).cut_short or not self.objective_ + unsure < independent:
                    break
                found.append(self.objective_)
        finally:
            self._shortened = 1.0
        if found:
            lost = len(found) > AGAIN_MOST_TIMES
            if lost:
                nothing = np.zeros((int(self.n_hidden), engine.n_features)), np.zeros(int(self.n_hidden))
                self.params_ = self._known(*nothing, bias, self.random_state)
                self.objective_, self.stop_reason_ = independent, str(Stop.STALLED)
                self._expose()
            self._warn_of_running_away(found, independent, float(summary.n_rows), lost)
        return seconds

    def _independent(self, summary: Summary) -> tuple[np.ndarray, float]:
        """Compute input biases of columns that are independent, and the log-likelihood of these."""
        mean, variance, n = (np.asarray(x) for x in (summary.mean, summary.variance, summary.observed))
        if self.real_valued:
            return mean, float(-0.5 * np.sum(n * (np.log(2 * np.pi) + variance)))
        share = (n * mean + 0.5) / (n + 1)
        return 0.5 * np.log(share / (1 - share)), float(
            np.sum(n * (mean * np.log(share) + (1 - mean) * np.log1p(-share)))
        )

    def _warn_of_running_away(self, found: list[float], independent: float, n_rows: float, lost: bool) -> None:
        rate = float(self.learning_rate or STOCHASTIC_RATE)
        done = (
            f"so it was with {rate * 0.2**AGAIN_MOST_TIMES:.2g}, and all weights are 0 now"
            if lost
            else f"learning_rate={rate * 0.2 ** len(found):.2g} was taken instead"
        )
        warnings.warn(
            f"the machine ran away from its chains: with learning_rate={rate:.2g} rows had {found[0] / n_rows:.4g} "
            f"nats each, less than the {independent / n_rows:.4g} of independent columns; {done}.  Pass a smaller "
            "learning_rate, or more chains: recipe={'n_chains': 1000}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _left_out(self, max_active: int) -> tuple[float, float]:
        with double():
            machine = machine_of(jax.tree.map(jnp.asarray, self.params_))
            found = sparse_moments(UNITS[self.kind], machine, max_active, seed_key(0, "left out"))
        return float(found.left_out), float(found.left_out_error)

    def _not_in_terms(self, max_terms: int) -> tuple[float, float]:
        with double():
            machine = machine_of(jax.tree.map(jnp.asarray, self.params_))
            log_sum = float(largest_moments(UNITS[self.kind], machine, max_terms)[0])
        share = float(np.exp(log_sum - self.params_.log_partition))
        return max(0.0, 1 - share), share * self.log_partition_error_

    def _warn_of_few_chains(self) -> None:
        # with less of the annealed chains counting, log Z is not to be trusted
        if self.log_partition_effective_ < 0.05:
            warnings.warn(
                f"log_partition_ is not to be trusted: only {100 * self.log_partition_effective_:.1f} % of the "
                "annealed chains count in it; call estimate_log_partition with more steps",
                ConvergenceWarning,
                stacklevel=3,
            )
