"""Scripts of this folder, run as processes of their own: without the checks of types, and before JAX has begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HELPERS = Path(__file__).parent


def printed_by(script, *args):
    """What a script prints; it must end well."""
    found = subprocess.run(
        [sys.executable, str(HELPERS / script), *map(str, args)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(HELPERS)])},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout
