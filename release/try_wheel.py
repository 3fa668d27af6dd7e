"""Try a wheel as its users will: a fresh environment, a folder without the checkout, every command of the README.

    python release/try_wheel.py dist                     # a quarter of an hour
    python release/try_wheel.py dist --only data --only help

What is tried comes from the wheel itself: the commands and the Python of the description that the package index shows.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

EXTRAS = "plot,tables"  # what commands of the README need
PAPER = "lee_sompolinsky_1998"  # the quickest
TABLES = """
import csv
import numpy as np

rng = np.random.default_rng(0)
kind = rng.random(150) < 0.4
bits = (rng.random((150, 6)) < np.where(kind[:, None], 0.8, 0.2)).astype(int)
names = [f"item{j}" for j in range(1, 7)]


def write(path, head, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])


cells = bits.astype(object)
cells[rng.random(bits.shape) < 0.05] = ""
write("new.csv", names, bits[:50])
write("answers.csv", names, cells)
write("votes.csv", ["party", *names], [["left" if k else "right", *row] for k, row in zip(kind, bits)])
write("spectra.csv", names, (bits @ rng.normal(size=(6, 6)) + 0.1 * rng.normal(size=(150, 6))).round(3))
"""
WHERE = """
import sys, latentbits
print(latentbits.__version__, latentbits.__file__)
sys.exit(not latentbits.__file__.startswith(sys.prefix))
"""


class Try(NamedTuple):
    """A command, and the files that it has to leave."""

    args: list[str]
    leaves: tuple[str, ...] = ()

    def __str__(self) -> str:
        return shlex.join(one if "\n" not in one else "..." for one in self.args)


def main() -> int:
    """Make the environment, try everything, tell what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the wheel is")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="only commands that hold this text")
    parser.add_argument("--constraint", type=Path, help="a file of versions, as release/lowest.py prints it")
    given = parser.parse_args()
    (wheel,) = given.folder.resolve().glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="try-wheel-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / "empty"
        folder.mkdir()
        programs = environment(Path(scratch) / "venv", wheel, given.constraint)
        failed = [one for one in trials(wheel, programs, given.only) if not tried(one, folder, programs)]
    print(f"{len(failed)} failed" if failed else "all work")
    return len(failed)


def environment(place: Path, wheel: Path, constraint: Path | None) -> Path:
    """A new virtual environment with the wheel in it: the folder of its programs."""
    venv.create(place, with_pip=True, symlinks=os.name != "nt")
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    asked = [f"{wheel}[{EXTRAS}]", *(["-c", str(constraint)] if constraint else [])]
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *asked], check=True)
    return programs


def trials(wheel: Path, programs: Path, only: list[str]) -> Iterator[Try]:
    """All that is tried, in order: later commands read what earlier ones wrote."""
    readme = description(wheel)
    yield Try(["python", "-W", "error", "-c", "import latentbits"])
    yield Try(["python", "-c", WHERE])
    yield Try(["python", "-c", TABLES], ("answers.csv", "new.csv", "votes.csv", "spectra.csv"))
    help_text = subprocess.run([programs / "latentbits", "--help"], capture_output=True, text=True, check=True).stdout
    every = [Try(["latentbits", *name, "--help"]) for name in [[], *([one] for one in subcommands(help_text))]]
    every += [Try(shlex.split(line)) for line in commands(readme)]
    every += [
        Try(["latentbits", "reproduce", "all", "--summary"]),
        Try(["latentbits", "reproduce", PAPER, "--quick"], (f"{PAPER}/results.md", f"{PAPER}/results.json")),
        Try(["python", "-c", "\n".join(python_blocks(readme))], ("digits.safetensors",)),
    ]
    yield from (one for one in every if not only or any(text in str(one) for text in only))


def description(wheel: Path) -> str:
    """The README as the package index shows it."""
    with zipfile.ZipFile(wheel) as file:
        name = next(name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        return file.read(name).decode().partition("\n\n")[2]


def subcommands(help_text: str) -> list[str]:
    """The names below "Commands:"."""
    return re.findall(r"^  (\w+)  +\S", help_text.partition("Commands:")[2], re.MULTILINE)


def commands(readme: str) -> list[str]:
    """Lines and words of code that begin with latentbits, without comments; a word in capitals stands for others."""
    text = re.sub(r"^```.*?^```$", "", readme, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^    (latentbits .*?)(?:  +#.*)?$|`(latentbits [^`\n]+)`", text, re.MULTILINE)
    lines = [block or inline for block, inline in found]
    return list(dict.fromkeys(line for line in lines if not re.search(r"\b[A-Z]{4,}\b", line)))


def python_blocks(readme: str) -> list[str]:
    """The README's Python."""
    return re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)


def tried(one: Try, folder: Path, programs: Path) -> bool:
    """Run it in the folder; what it printed is shown where it fails."""
    began = time.monotonic()
    program = shutil.which(one.args[0], path=str(programs))
    if program is None:
        raise FileNotFoundError(f"there is no {one.args[0]} in {programs}")
    done = subprocess.run(
        [program, *one.args[1:]],
        cwd=folder,
        env=surroundings(folder, programs),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    missing = [name for name in one.leaves if not (folder / name).exists()]
    fine = done.returncode == 0 and not missing
    print(f"{'ok' if fine else 'FAILED':6} {time.monotonic() - began:5.0f} s  {one}", flush=True)
    if not fine:
        print(done.stdout, f"exit code {done.returncode}", *(f"no {name}" for name in missing), sep="\n", flush=True)
    return fine


def surroundings(folder: Path, programs: Path) -> dict[str, str]:
    """Variables of a user who has none of the project's: no checkout, no data, a cache of their own, no browser."""
    kept = {name: value for name, value in os.environ.items() if not re.match("PYTHON|LATENTBITS_|JAX_|XLA_|CI$", name)}
    paths = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    cache = str(folder.parent / "cache")
    return {**kept, "PATH": paths, "LATENTBITS_CACHE": cache, "MPLBACKEND": "agg", "PYTHONUTF8": "1", "BROWSER": "true"}


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
