"""Forks: a child that would wait for ever for threads that it does not have raises an error instead."""

from __future__ import annotations

import os
import select
import signal

import pytest

from latentbits.core.compilation import Program
from latentbits.core.errors import ForkedError
from latentbits.engines.threads import threads

SECONDS = 30.0  # that the child may take to raise; it takes milliseconds


def add_one(x):
    return x + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", ["a program that was called before", "threads"])
def test_a_process_that_was_forked_after_a_program_is_refused(use):
    program = Program(add_one)
    assert program(1.5) == 2.5
    uses = {
        "a program that was called before": lambda: program(1.5),
        "threads": lambda: threads().submit(add_one, 1).result(),
    }
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            uses[use]()
        except ForkedError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    ended, _, _ = select.select([ours], [], [], SECONDS)
    if not ended:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(ours) as said:
        assert "loky" in said.read()
    assert program(1.5) == 2.5  # in the parent all is as it was
