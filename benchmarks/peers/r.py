"""Contenders that are packages of R: the table goes there as a file, and the parameters come back as files.

R's own clock is around the fit alone; what it takes to start, to load the package and to read the table counts for the
first answer.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["SCRIPT", "has_package", "in_r", "script"]

# The peak is that of R's process above what it had before the fit, as for all others.
SCRIPT = """\
suppressWarnings(suppressMessages(library({package})))
X <- as.matrix(read.csv("X.csv", header = FALSE))
{settings}
resident <- function(field) {{
  lines <- readLines("/proc/self/status")
  as.numeric(gsub("[^0-9]", "", lines[startsWith(lines, field)])) / 1024
}}
invisible(gc())
cat("5", file = "/proc/self/clear_refs")
before <- resident("VmRSS")
began <- proc.time()[["elapsed"]]
{body}
took <- c(proc.time()[["elapsed"]] - began, resident("VmHWM") - before)
write.table(format(took, digits = 8), "took.txt", quote = FALSE, row.names = FALSE, col.names = FALSE)
writeLines(as.character(packageVersion("{package}")), "version.txt")
for (name in names(found))
  write.table(as.matrix(found[[name]]), paste0(name, ".csv"), sep = ",", row.names = FALSE, col.names = FALSE)
"""


def script(package: str, body: str, settings: Mapping[str, Any]) -> str:
    """What R runs; `body` finds `X` and the settings as variables, and makes a list `found` of matrices."""
    lines = "\n".join(f"{name} <- {value}" for name, value in settings.items())
    return SCRIPT.format(package=package, settings=lines, body=body)


def in_r(package: str, body: str) -> Callable[..., dict[str, Any]]:
    """The fit of a contender; every parameter comes back with two dimensions."""

    def fit(X: np.ndarray, **settings: Any) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.savetxt(folder / "X.csv", X, fmt="%g", delimiter=",")
            (folder / "fit.R").write_text(script(package, body, settings))
            done = subprocess.run(
                ["Rscript", "--vanilla", "fit.R"], cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"R: {done.stderr.strip()[-300:]}")
            warm_s, peak_mb = np.loadtxt(folder / "took.txt")
            found = {file.stem: np.loadtxt(file, delimiter=",", ndmin=2) for file in folder.glob("*.csv")}
            del found["X"]
            version = (folder / "version.txt").read_text().strip()
            return found | {"warm_s": float(warm_s), "peak_mb": float(peak_mb), "version": version}

    return fit


def has_package(package: str) -> bool:
    """Whether Rscript is there, and finds it."""
    command = ["Rscript", "--vanilla", "-e", f'quit(status = !requireNamespace("{package}", quietly = TRUE))']
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
