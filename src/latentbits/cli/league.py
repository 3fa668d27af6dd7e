"""`latentbits league`: every family on the public density-estimation sets, beside what others have published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from latentbits.cli.console import common_options, give, say, show_line
from latentbits.cli.reports import show_tables
from latentbits.core.errors import did_you_mean

__all__ = ["league"]


@click.command(short_help="All families on the public sets of bits, beside published results.")
@click.argument("sets", nargs=-1, metavar="[SETS]...")
@click.option(
    "--families", metavar="LIST", help="Entries with commas between.  [default: all; an unknown one lists them]"
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    metavar="SECONDS",
    help="For each family on each set.",
)
@click.option("--out", type=click.Path(file_okay=False), default="league", help="The folder of the run.")
@click.option("--jobs", type=click.IntRange(1), help="Families at a time, each in a process.  [default: the cores]")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of all fits.")
@click.option(
    "--summary", is_flag=True, help="Run nothing, and print the results kept here, or those in --out if named."
)
@click.option("--keep", is_flag=True, help="Take the results into the package, for --summary and the docs.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a line for each model on each set, as csv.")
@common_options
@click.pass_context
def league(
    ctx: click.Context,
    sets: tuple[str, ...],
    families: str | None,
    budget: float,
    out: str,
    jobs: int | None,
    seed: int,
    summary: bool,
    keep: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Fit every family to SETS (all twenty unless named) and test what was chosen.

    Sizes and regularisation are chosen on the validation rows of a set alone.  From a first setting, one number is
    changed at a time for as long as validation rows gain and the budget lasts.  Test rows are looked at once, for what
    was chosen and for the stack of all, whose weights validation rows choose, too.

    A set takes at most the budget times the number of families (9), shared by the jobs, and the time to compile and to
    score what is under way: with the default up to 25 minutes on two cores, with --budget 60 about 6.

    The sets come from the folder that LATENTBITS_DATA names (debd/kdd.npz), or from the network.  Every fit is kept in
    --out as it ends, and the same command goes on from there; with a larger budget it climbs on.  The exit code is 1
    where a set could not be had, or a family has no result.
    """
    from latentbits.league.entries import ENTRIES
    from latentbits.league.sets import SETS

    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other.")
    known = [one.name for one in ENTRIES]
    chosen = known if families is None else [word.strip() for word in families.split(",")]
    for name, there, what in [*((n, SETS, "set") for n in sets), *((n, known, "family") for n in chosen)]:
        if name not in there:
            raise click.UsageError(
                f"there is no {what} {name!r} in the league; there are {', '.join(there)}.{did_you_mean(name, there)}"
            )
    names = [name for name in SETS if name in sets] if sets else list(SETS)
    if summary:
        given = [name for name in ("families", "budget", "jobs", "seed") if _is_given(ctx, name)]
        if given:
            raise click.UsageError(f"--summary runs nothing that --{given[0]} could change.")
        folder = Path(out) if _is_given(ctx, "out") else None
        _summarize(names, sets, folder, keep, as_csv, as_json)
        return
    _run(names, chosen, Path(out), budget, seed, jobs, keep, as_csv, as_json)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _summarize(
    names: list[str], asked: tuple[str, ...], folder: Path | None, keep: bool, as_csv: bool, as_json: bool
) -> None:
    from latentbits.league import kept_results

    there = kept_results.in_package() if folder is None else kept_results.in_folder(folder)
    found = {name: there[name] for name in names if name in there}
    if folder is not None and not found:
        raise ValueError(f"--out must hold results of `latentbits league`, found none in {folder}")
    if keep:
        if folder is None:
            raise click.UsageError("--summary --keep needs --out FOLDER, to take from.")
        kept_results.keep(found)
        say(f"kept {', '.join(found)}")
    _show(found, as_csv, as_json)
    if asked or not found:
        for name in names if asked else ["all sets"]:
            if name not in found:
                say(f"{name}: no results are kept yet")


def _run(
    names: list[str],
    families: list[str],
    out: Path,
    budget: float,
    seed: int,
    jobs: int | None,
    keep: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    from latentbits.core.atomic import check_writable
    from latentbits.league import kept_results
    from latentbits.league.run import league as run_league

    out.mkdir(parents=True, exist_ok=True)
    check_writable(out / "results.json")
    if keep:
        check_writable(kept_results.kept_file())
    ended = run_league(
        names, families, out, budget=budget, seed=seed, jobs=jobs, say=lambda name, text: say(f"{name}: {text}")
    )
    found = {name: ended.results[name] for name in names if name in ended.results}
    if keep and found:
        kept_results.keep(found)
        say(f"kept {', '.join(found)}")
    _show(found, as_csv, as_json)
    for error in ended.failed.values():
        raise error  # the first, which says why; all were printed
    without = [
        f"{name} of {family}"
        for name, result in found.items()
        for family in families
        if result["entries"].get(family, {}).get("test") is None
    ]
    if without:
        raise ValueError(f"no result for {', '.join(without)}; the lines above say why")


# --- showing it ---


def _show(found: Mapping[str, Any], as_csv: bool, as_json: bool) -> None:
    from latentbits.league import table
    from latentbits.reports.render import records

    if as_csv:
        click.echo(table.every_line(found.values()).to_csv(), nl=False)
        return
    shown = {name: {**result, "lines": records(table.every_line([result]))} for name, result in found.items()}
    give({"sets": shown}, as_json, lambda: _print(found))


def _print(found: Mapping[str, Any]) -> None:
    from latentbits.league import table
    from latentbits.league.published import PUBLISHED

    show_tables(map(table.as_table, found.values()), options=False)
    if found:
        show_tables([table.summary(found.values())])
        show_line(table.counts(found.values()))
        for one in PUBLISHED:
            show_line(f"{one.name} ({'verified' if one.verified else 'unverified'}): {one.source}.")
        for text in table.made_on(found):
            show_line(text)
