"""A device that has no room for a chunk: half as many rows are then computed at a time, and no fit is lost."""

from __future__ import annotations

import warnings

from latentbits.core.errors import TooLargeError, is_out_of_memory
from latentbits.engines.chunks import FEWEST_ROWS, Layout

__all__ = ["Room"]


class Room:
    """Memory that a device turned out to have, remembered from pass to pass."""

    def __init__(self) -> None:
        self.halvings = 0

    def within(self, layout: Layout) -> Layout:
        """Return the layout, with chunks as small as they have to be."""
        return layout._replace(rows_per_chunk=max(FEWEST_ROWS, layout.rows_per_chunk >> self.halvings))

    def less_after(self, error: Exception, layout: Layout) -> Layout:
        """Half the chunk after a device was out of memory; the error itself where it is another, or nothing helps.

        What was refused before it began (`TooLargeError`) is too large for other reasons than its chunks.
        """
        if isinstance(error, TooLargeError) or not is_out_of_memory(error) or layout.rows_per_chunk <= FEWEST_ROWS:
            raise error
        if self.halvings == 0:
            warnings.warn(
                f"the device has no room for {layout.rows_per_chunk} rows at a time: fewer are computed, which takes "
                "longer and may change last digits",
                RuntimeWarning,
                stacklevel=2,
            )
        self.halvings += 1
        return layout._replace(rows_per_chunk=max(FEWEST_ROWS, layout.rows_per_chunk // 2))
