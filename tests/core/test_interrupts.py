"""Ctrl-C at safe places."""

import signal
import threading

import pytest

from latentbits.core import interrupts


@pytest.fixture(autouse=True)
def own_handler():
    """Python's own, which a job in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def test_the_first_waits_for_a_check():
    done = []
    with interrupts.held():
        press()
        done.append("the line after")
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()  # it is raised once
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_does_not_wait():
    with interrupts.held():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert interrupts.take()


def test_an_untaken_signal_is_raised_at_the_outer_end():
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts.held():  # noqa: PT012
        with interrupts.held():
            press()
        reached.append("the inner end")
    assert reached
    with interrupts.held():  # and is forgotten then
        interrupts.check()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_who_takes_it_ends_by_himself():
    with interrupts.held():
        assert not interrupts.take()
        press()
        assert interrupts.take()
        assert not interrupts.take()


def test_a_shield_lets_it_wait_longer():
    with interrupts.held():
        with interrupts.shielded():
            press()
            interrupts.check()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_an_error_is_not_hidden():
    with pytest.raises(ValueError, match="mine"), interrupts.held():  # noqa: PT012
        press()
        raise ValueError("mine")


def test_a_handler_of_the_user_stays():
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    with interrupts.held():
        press()
        interrupts.check()
    assert heard == [signal.SIGINT]


def test_other_threads_are_left_alone():
    taken = []

    def work():
        with interrupts.held(), interrupts.shielded():
            interrupts.check()
            taken.append(interrupts.take())

    with interrupts.held():
        press()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert taken == [False]
        assert interrupts.take()
