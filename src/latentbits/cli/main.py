"""The entry point: the group of all commands, and what becomes of an error.

Nothing here, nor in the files of the commands, may import JAX, NumPy or scikit-learn while it is itself being
imported: ``latentbits --help`` should answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from latentbits.cli.compare import compare
from latentbits.cli.complete import complete
from latentbits.cli.console import in_one_line, prepare_streams, say, show_traceback, show_warnings, wants_debug
from latentbits.cli.data import data
from latentbits.cli.explore import explore
from latentbits.cli.fit import fit
from latentbits.cli.inputs import ARGUMENTS
from latentbits.cli.league import league
from latentbits.cli.reproduce import reproduce
from latentbits.cli.sample import sample
from latentbits.cli.score import score
from latentbits.cli.sizes import sizes
from latentbits.cli.transform import transform
from latentbits.core.errors import LatentBitsError, is_out_of_memory
from latentbits.core.interrupts import ending, exit_code, has_arrived
from latentbits.core.printable import printable
from latentbits.core.version import __version__

__all__ = ["cli", "main"]


class OneLineError(click.ClickException):
    """An error as ``error: ...`` in one line, with exit code 1."""

    def show(self, file: Any = None) -> None:
        say(f"error: {self.format_message()}")


class Tool(click.Group):
    """A group that lists its commands in the order of use, and whose commands fail in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        try:
            with _printable_usage():
                return super().parse_args(ctx, args)
        except BrokenPipeError:
            raise
        except OSError as error:  # help that cannot be printed
            raise OneLineError(in_one_line(error)) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _printable_usage(), show_warnings():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click knows what to do when `| head` has seen enough
        except KeyboardInterrupt:
            if not has_arrived():  # else it is said at the very end
                say("interrupted")
            ctx.exit(exit_code())
        except Exception as error:
            memory = is_out_of_memory(error)
            # what bad input raises; anything else is a mistake of ours, and its traceback is wanted
            if wants_debug(ctx) or not (memory or isinstance(error, (LatentBitsError, ValueError, OSError))):
                raise
            raise OneLineError(out_of_memory(error) if memory else in_one_line(error)) from error


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Escape what click could not understand, and quotes as it is."""
    try:
        yield
    except click.UsageError as error:
        message = error.format_message()
        text = "\n".join(map(printable, message.split("\n")))  # what it says of itself has lines
        if text == message:
            raise
        raise click.UsageError(text, error.ctx) from error


def out_of_memory(error: BaseException) -> str:
    """Say what to do about it; JAX adds a page of allocations, of which the first line says enough.

    >>> out_of_memory(MemoryError("Unable to allocate 93. GiB"))
    'out of memory (Unable to allocate 93. GiB): take fewer rows, columns or components, or a machine with more'
    """
    first = next(iter(str(error).strip().splitlines()), "")
    why = f" ({first})" if first else ""
    return f"out of memory{why}: take fewer rows, columns or components, or a machine with more"


@click.group(
    cls=Tool,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100},
    epilog="Start with:  latentbits explore",
)
@click.version_option(__version__, prog_name="latentbits")
@click.option("--debug", is_flag=True, help="Show the full traceback of an error.")
def cli(debug: bool) -> None:
    """Find the hidden causes of binary data.

    DATA, wherever a command asks for it, is a file (csv, tsv, txt, parquet, npy, npz, zarr or h5ad, with 0 and 1 and
    a mark for what is missing) or the name of a public data set (`latentbits data` lists them).
    """


for command in (explore, compare, sizes, fit, score, transform, complete, sample, data, reproduce, league):
    cli.add_command(command)


def main() -> None:
    """Run the tool with the arguments of the process."""
    # XLA logs errors when it reads a program from disk, about tuning preferences that it mistakes for features of the
    # processor, even on the machine that compiled it (jax issue 38445); it looks at this when JAX is imported
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with ending():
        prepare_streams()
        sys.excepthook = show_traceback
        cli()


if __name__ == "__main__":
    main()
