"""gamma and H' along learning: those that it begins with, grows to and ends with."""

from __future__ import annotations

from math import comb
from typing import NamedTuple

from latentbits.models.binary_sparse_coding.tuning import (
    FIRST_SIZE,
    MOST_ENUMERATED_CAUSES,
    MOST_SETTLED_CAUSES,
    MOST_SETTLED_STATES,
    MOST_STATES_PER_ROW,
    SIZE_STEP,
)

__all__ = ["Size", "Sizes", "n_states"]

Size = tuple[int, int]


def n_states(size: Size) -> int:
    """Count the states of at most gamma of H' causes."""
    gamma, candidates = size
    return sum(comb(candidates, k) for k in range(gamma + 1))


class Sizes(NamedTuple):
    """H, with gamma and H' as they were given, None for "auto"; and whether learning begins with smaller ones."""

    n_causes: int
    max_active: int | None = None
    n_candidates: int | None = None
    grow: bool = True

    @property
    def every(self) -> Size:
        """All causes."""
        return self.n_causes, self.n_causes

    @property
    def given(self) -> Size | None:
        """gamma and H' where neither is "auto"."""
        if self.max_active is None or self.n_candidates is None:
            return None
        return self.max_active, self.n_candidates

    def checked(self) -> Sizes:
        """Return these sizes; complain of some that do not fit together."""
        if self.n_candidates is not None and self.n_candidates > self.n_causes:
            raise ValueError(f"n_candidates={self.n_candidates} must not be larger than n_causes={self.n_causes}")
        most = self.n_causes if self.n_candidates is None else self.n_candidates
        if self.max_active is not None and self.max_active > most:
            raise ValueError(
                f"max_active={self.max_active} of n_candidates={most} causes cannot be on together: max_active must "
                "not be larger than n_candidates"
            )
        return self

    def first(self) -> Size:
        """Return gamma and H' to begin with."""
        if self.given is not None:
            gamma, candidates = self.given
            return (
                (FIRST_SIZE[0], min(candidates, FIRST_SIZE[1])) if self.grow and gamma > FIRST_SIZE[0] else self.given
            )
        if self.max_active is not None:
            return self.max_active, min(max(self.max_active + 2, FIRST_SIZE[1]), self.n_causes)
        candidates = min(FIRST_SIZE[1], self.n_causes) if self.n_candidates is None else self.n_candidates
        return min(FIRST_SIZE[0], candidates), candidates

    def after(self, now: Size) -> Size:
        """Return gamma and H' that come next, which are the present ones where there is no room."""
        if self.given is not None:
            return self.given
        candidates = min(now[1] + SIZE_STEP[1], self.n_causes) if self.n_candidates is None else self.n_candidates
        larger = min(now[0] + SIZE_STEP[0], candidates) if self.max_active is None else self.max_active, candidates
        return larger if n_states(larger) <= MOST_STATES_PER_ROW else now

    def beyond(self, now: Size) -> Size:
        """Return gamma and H' beyond those learned with, as far as they can be looked at."""
        gamma, candidates = min(now[0] + SIZE_STEP[0], self.n_causes), min(now[1] + SIZE_STEP[1], self.n_causes)
        while n_states((gamma, candidates)) > 4 * MOST_STATES_PER_ROW and (gamma, candidates) > now:
            gamma, candidates = (gamma - 1, candidates) if gamma > now[0] else (gamma, candidates - 1)
        return gamma, candidates

    def in_use(self, now: Size) -> Size:
        """Return gamma and H' that a fitted model answers with: all where there are few causes, however learned."""
        return self.every if self.n_causes <= MOST_ENUMERATED_CAUSES else now

    def settle(self, n_rows: float) -> bool:
        """Tell whether learning ends with exact EM: it was asked for, or "auto" has the time."""
        if self.given is not None:
            return self.given == self.every
        allowed = all(x in (None, self.n_causes) for x in (self.max_active, self.n_candidates))
        return allowed and self.n_causes <= MOST_SETTLED_CAUSES and n_rows * 2**self.n_causes <= MOST_SETTLED_STATES
