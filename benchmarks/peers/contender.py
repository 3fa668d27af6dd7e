"""What runs in the process of one contender: import, a first fit, the same fit again.  It prints one line of JSON.

    python -m benchmarks.peers.contender FAMILY CONTENDER TABLE.npz OUT.npz SEED SETTINGS

A peer's process imports nothing of ours but this file, `resident` and the family's, none of which imports latentbits.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.peers.resident import forget_peak, resident

__all__ = ["MEASURED_INSIDE", "Contender", "NotWaitedFor", "Table", "measure"]

MEASURED_INSIDE = ("warm_s", "peak_mb", "version")  # entries of what a fit gives that are no parameters


class Table(NamedTuple):
    """Rows to learn from, and rows to score.

    Attributes
    ----------
    train, test
        Bits as uint8, or floats where a family is of real numbers.
    settings
        Keywords of every contender's fit, such as the number of causes: what JSON can hold.
    """

    train: np.ndarray
    test: np.ndarray
    settings: Mapping[str, Any] = {}


class NotWaitedFor(Exception):
    """A fit that would take too long, as far as is known before it."""


class Contender(NamedTuple):
    """A library that fits the family.

    Attributes
    ----------
    fit
        `fit(X, seed=..., **settings)` gives the parameters by name, as `held_out` takes them.  What it imports was
        imported before.  One that measures itself (a process of another language) adds `warm_s`, `peak_mb` and
        `version`; then its call as a whole counts for the first answer alone.
    package
        As its installer knows it; its version is printed.
    module
        What is imported before the fit, and timed; the package where None.
    dtype
        Of the table that it likes best; the conversion is not timed.
    note
        Settings, where they are not the library's own; printed below the table.
    needs
        "R" where the package is one of R.
    works
        A statement of Python that fails in an interpreter where the package is there, but does not work.
    install
        How to get it, where neither pip nor install.packages does.
    """

    fit: Callable[..., Mapping[str, Any]]
    package: str
    module: str | None = None
    dtype: type = np.uint8
    note: str = ""
    needs: str = ""
    works: str = ""
    install: str = ""

    @property
    def imports(self) -> str | None:
        """The module to import; None for one of R."""
        return None if self.needs == "R" else self.module or self.package

    @property
    def how_to_install(self) -> str:
        """A command."""
        in_r = f"Rscript -e 'install.packages(\"{self.package}\")'"
        return self.install or (in_r if self.needs == "R" else f"pip install {self.package}")


def measure(contender: Contender, X: np.ndarray, seed: int, settings: Mapping[str, Any]) -> tuple[dict, dict]:
    """What it took, and the parameters of the second fit."""
    X = np.ascontiguousarray(X, dtype=contender.dtype)
    began = time.perf_counter()
    if contender.imports is not None:
        import_module(contender.imports)
    import_s = time.perf_counter() - began
    before = forget_peak()
    began = time.perf_counter()
    contender.fit(X, seed=seed, **settings)
    first_s = import_s + time.perf_counter() - began
    began = time.perf_counter()
    params = dict(contender.fit(X, seed=seed, **settings))
    took = {
        "import_s": import_s,
        "first_s": first_s,
        "warm_s": time.perf_counter() - began,
        "peak_mb": resident("VmHWM") - before,
    }
    took |= {key: params.pop(key) for key in MEASURED_INSIDE if key in params}
    if "version" not in took:
        took["version"] = metadata.version(contender.package)
    return took, params


def main() -> None:
    """One contender, as the command line says."""
    family, name, table, out, seed, settings = sys.argv[1:]
    warnings.simplefilter("ignore")
    contender = import_module(f"benchmarks.peers.families.{family}").CONTENDERS[name]
    took, params = measure(contender, np.load(table)["train"], int(seed), json.loads(settings))
    if contender.package != "latentbits" and "latentbits" in sys.modules:
        raise RuntimeError(f"the process of {name} has imported latentbits")
    np.savez(Path(out), **params)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
