"""Python and the tool in processes of their own, of a chosen source tree, within limits of time and memory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Bench", "Ran"]

ROOT = Path(__file__).resolve().parents[2]  # where these instruments are, not what they test
GIB = 2**30


@dataclass(frozen=True)
class Ran:
    """How a process ended: exit code (negative: a signal; None: it was stopped), what it said, seconds, peak memory."""

    code: int | None
    out: str
    err: str
    seconds: float
    peak: float  # MB
    processor: float = 0.0  # seconds, of this process

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent" in self.out + self.err

    @property
    def last(self) -> str:
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1].strip()[:160] if lines else "nothing"

    @property
    def how(self) -> str:
        return "no end within the limit" if self.code is None else f"exit {self.code}"

    def value(self, name: str) -> str:
        """What a snippet printed as ``name = value``."""
        found = [line.partition(" = ")[2] for line in self.out.splitlines() if line.startswith(f"{name} = ")]
        return found[-1] if found else f"({self.how}: {self.last})"

    def number(self, name: str) -> float:
        try:
            return float(self.value(name))
        except ValueError:
            return float("nan")


class Bench:
    """A folder, and a source tree to run in it."""

    def __init__(self, source: Path, folder: Path, cache: Path) -> None:
        self.source, self.folder, self.cache = source.resolve(), folder, cache

    @property
    def tree(self) -> Path:
        return self.source.parent

    def python(self, code: str, **limits: Any) -> Ran:
        return self.run([sys.executable, "-c", code], **limits)

    def tool(self, *arguments: Any, **limits: Any) -> Ran:
        return self.run([sys.executable, "-m", "latentbits.cli.main", *map(str, arguments)], **limits)

    def run(
        self,
        command: list[str],
        *,
        seconds: float = 240,
        memory: float = 6,
        environment: dict[str, str] | None = None,
        cold: bool = False,
        interrupt: tuple[int, Callable[[str], bool], float] | None = None,
        file_size: int | None = None,
    ) -> Ran:
        """Run it; `interrupt` is a signal, what stderr must hold before it is sent, and how long to wait after that."""
        settings = {**os.environ, "PYTHONPATH": f"{self.source}{os.pathsep}{ROOT}", "LATENTBITS_CACHE": str(self.cache)}
        if cold:
            settings.pop("JAX_COMPILATION_CACHE_DIR", None)
            settings["LATENTBITS_CACHE"] = tempfile.mkdtemp(dir=self.folder)
        settings.update(environment or {})

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (int(memory * GIB), int(memory * GIB)))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if file_size is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=limit,
            start_new_session=True,
        )
        said: dict[str, list[bytes]] = {"out": [], "err": []}
        readers = [
            threading.Thread(target=_drain, args=(pipe, said[name]), daemon=True)
            for name, pipe in (("out", process.stdout), ("err", process.stderr))
        ]
        for reader in readers:
            reader.start()
        stopped, sent, seen_at = False, False, None
        peak, status, processor = 0.0, 0, 0.0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                peak, processor = usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
                break
            now = time.monotonic()
            if interrupt and not sent:
                which, seen, after = interrupt
                if seen_at is None and seen(b"".join(said["err"]).decode("utf-8", "replace")):
                    seen_at = now
                if seen_at is not None and now - seen_at >= after:
                    os.kill(process.pid, which)
                    sent = True
            if now - began > seconds and not stopped:
                stopped = True
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        for reader in readers:
            reader.join(5)
        out, err = (b"".join(said[name]).decode("utf-8", "replace") for name in ("out", "err"))
        return Ran(None if stopped else process.returncode, out, err, time.monotonic() - began, peak, processor)


def _drain(pipe: Any, into: list[bytes]) -> None:
    while chunk := os.read(pipe.fileno(), 65536):
        into.append(chunk)
