"""The entry point: the group of all commands, and what becomes of an error.

Nothing here, nor in the files of the commands, may import JAX, NumPy or scikit-learn while it is itself being
imported: ``latentbits --help`` should answer at once.
"""

from __future__ import annotations

from typing import Any

import click

from latentbits import __version__
from latentbits.cli.apply import complete, sample, score, transform
from latentbits.cli.compare import compare
from latentbits.cli.console import as_options, say, wants_debug
from latentbits.cli.data import data
from latentbits.cli.explore import explore
from latentbits.cli.fit import fit
from latentbits.cli.reproduce import reproduce
from latentbits.cli.signals import ending, exit_code, has_arrived
from latentbits.core.errors import LatentBitsError

__all__ = ["cli", "main"]

# What bad input raises; anything else is a mistake of ours, and its traceback is wanted.
EXPECTED = (LatentBitsError, ValueError, OSError, MemoryError)


class OneLineError(click.ClickException):
    """An error as ``error: ...`` in one line, with exit code 1."""

    def show(self, file: Any = None) -> None:
        say(f"error: {self.format_message()}")


class Tool(click.Group):
    """A group that lists its commands in the order of use, and whose commands fail in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click knows what to do when `| head` has seen enough
        except KeyboardInterrupt:
            if not has_arrived():  # else it is said at the very end
                say("interrupted")
            ctx.exit(exit_code())
        except EXPECTED as error:
            if wants_debug(ctx):
                raise
            raise OneLineError(in_one_line(error)) from error


def in_one_line(error: BaseException) -> str:
    """The message of an error for somebody at a terminal.

    >>> in_one_line(ValueError("no bits.\\n  Pass binarize=0.5 to cut"))
    'no bits. Pass --binarize 0.5 to cut'
    """
    return as_options(" ".join(str(error).split())) or type(error).__name__


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


for command in (explore, compare, fit, score, transform, complete, sample, data, reproduce):
    cli.add_command(command)


def main() -> None:
    """Run the tool with the arguments of the process."""
    with ending():
        cli()


if __name__ == "__main__":
    main()
