"""Reports and tables as values: numbers by name, which `reports.render` writes in every format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from latentbits.reports import render

__all__ = ["Rendered", "Report", "Table"]

MOST_SHOWN = 10  # rows of a table that begins with the largest, where it is printed


class Rendered(ABC):
    """Base of tables and reports, which print, and leave in every format."""

    @abstractmethod
    def table(self) -> Table:
        """Make the table of all that is in it."""

    def shown(self) -> tuple[Table, ...]:
        """Make the tables that are printed; here all of the table."""
        return (self.table(),)

    def __str__(self) -> str:
        return "\n\n".join(map(render.to_text, self.shown()))

    def _repr_html_(self) -> str:
        return "".join(map(render.to_html, self.shown()))

    def to_frame(self) -> Any:
        """Give the table as a pandas data frame, every number in full."""
        return render.to_frame(self.table())

    def to_csv(self) -> str:
        """Write the table as comma-separated text, every number in full."""
        return render.to_csv(self.table())

    def to_markdown(self) -> str:
        """Write the table for a README or a notebook."""
        return render.to_markdown(self.table())

    def to_latex(self) -> str:
        """Write the table as a `tabular` with the rules of the package booktabs."""
        return render.to_latex(self.table())


@dataclass(frozen=True)
class Table(Rendered):
    """Columns of equal length with a name for each row.

    Attributes
    ----------
    index
        Names of the rows.
    columns
        Name of each column, and its values: numbers, numbers with errors (`reports.numbers.Measured`), or words.
    title, notes
        The subject of the table, and what a reader should know: parameters at a bound, cells too sparse.
    corner
        What the rows are: "item".
    """

    index: list[str]
    columns: dict[str, Any]
    title: str = ""
    notes: tuple[str, ...] = ()
    corner: str = ""

    def first(self, most: int, note: str) -> Table:
        """Keep the first rows; the note says where the `{}` others are."""
        more = len(self.index) - most
        if more <= 0:
            return self
        columns = {name: values[:most] for name, values in self.columns.items()}
        return replace(self, index=self.index[:most], columns=columns, notes=(*self.notes, note.format(more)))

    def largest(self, what: str) -> Table:
        """Keep the first rows of a table that begins with the largest."""
        note = f"the {MOST_SHOWN} largest; to_frame, to_csv and the file of a report have {{}} more {what}"
        return self.first(MOST_SHOWN, note)

    def table(self) -> Table:
        """Give itself."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Give the names of the rows, and the columns by name."""
        return {"index": list(self.index), "columns": render.plain(render.flat(self))}


@dataclass(frozen=True)
class Report(Rendered):
    """Base of all reports: a frozen dataclass whose fields are read as attributes or, as of a dict, by name.

    A subclass gives in `table` what is in it, and in `shown` what of that is printed.
    """

    def table(self) -> Table:
        """Make a table of the report; here one row for each field that is a number."""
        shown = {name: self[name] for name in self.keys() if isinstance(self[name], (int, float, str))}
        return Table(list(shown), {"value": list(shown.values())}, notes=tuple(getattr(self, "notes", ())))

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self.keys())}")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Give the names of what is in it."""
        return [field.name for field in fields(self)]

    def to_json(self) -> dict[str, Any]:
        """Give every field as plain numbers, lists and text; what is not a number is None."""
        return {name: render.plain(self[name]) for name in self.keys()}
