"""prosper's learning, in every process of an MPI run; the first one prints what it took and keeps the parameters.

    mpiexec -n 2 python -m benchmarks.peers.mpi_prosper X.npy OUT.npz SETTINGS

Rows are dealt out to the processes.  Memory is the sum of their peaks above what they had before.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from benchmarks.peers.resident import forget_peak, resident
from mpi4py import MPI
from prosper.__version__ import __VERSION__
from prosper.em import EM
from prosper.em.annealing import LinearAnnealing
from prosper.em.camodels.bsc_et import BSC_ET
from prosper.utils.parallel import stride_data

FEW = 100  # rows of a process whose first iteration tells how long all will take


def learn(X: np.ndarray, steps: int, asked: dict) -> dict:
    """As its example of the bars test does it."""
    model = BSC_ET(X.shape[1], asked["causes"], asked["candidates"], asked["most"])
    start = model.standard_init({"y": X})
    start["W"] = MPI.COMM_WORLD.bcast(start["W"])
    anneal = LinearAnnealing(steps)
    anneal["T"] = [(0, asked["hot"]), (asked["cold_by"], 1.0)]
    anneal["Ncut_factor"] = [(0, 0.0), (asked["cut_by"], 1.0)]
    anneal["anneal_prior"] = False
    learning = EM(model=model, anneal=anneal, data={"y": X}, lparams=start)
    learning.run()
    return learning.lparams


def main() -> None:
    """One fit, as the command line says."""
    table, out, settings = sys.argv[1:]
    asked = json.loads(settings)
    warnings.simplefilter("ignore")
    comm = MPI.COMM_WORLD
    X = np.load(table)
    first, last = stride_data(len(X))
    mine = X[first:last]
    before = forget_peak()
    began = time.process_time()
    learn(mine[:FEW], 2, asked)
    seconds = comm.allreduce((time.process_time() - began) / 2 * asked["steps"] * len(mine) / FEW)
    if seconds > asked["longest"] * comm.size:
        sys.exit(f"Error: would take {seconds / 60:.0f} minutes of one core")
    np.random.seed(asked["seed"])  # noqa: NPY002  (it draws from there)
    comm.Barrier()
    began = time.perf_counter()
    params = learn(mine, asked["steps"], asked)
    took = {"warm_s": time.perf_counter() - began, "peak_mb": comm.allreduce(resident("VmHWM") - before)}
    if comm.rank == 0:
        np.savez(out, W=params["W"].T, sigma=params["sigma"], pi=params["pi"])
        print(json.dumps({**took, "version": __VERSION__}))


if __name__ == "__main__":
    main()
