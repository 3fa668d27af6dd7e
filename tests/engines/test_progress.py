"""Bars: who sees one, when, and what is said of the time left."""

from __future__ import annotations

import io
import sys
import types

import pytest

from latentbits.core.model import Measure
from latentbits.engines import monitor as monitors
from latentbits.engines import progress
from latentbits.engines.monitor import Limits, Monitor, Record, counted
from latentbits.engines.progress import Line, bar_for


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """Seconds that pass on request."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def look(monkeypatch):
    """Sit down at a terminal: to be called in the test, as pytest replaces standard error for each phase."""

    def sit():
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)
        return stream

    return sit


@pytest.fixture
def notebook(monkeypatch):
    """IPython with a kernel, as far as it is used: what was displayed, in order."""
    shown = []

    class Handle:
        def update(self, data, raw):
            assert raw
            shown.append(data)

    def display(data, raw, display_id):
        assert raw
        assert display_id
        shown.append(data)
        return Handle()

    ipython, part = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    part.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", part)
    return shown


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    return clock


@pytest.fixture
def learning(monkeypatch):
    """The clock of a monitor."""
    clock = Clock()
    monkeypatch.setattr(monitors.time, "perf_counter", clock)
    monkeypatch.setattr(monitors, "seconds_waited", lambda: 0.0)
    return clock


def a_pass(monitor, clock, iteration, seconds, left=float("nan"), target=1.0):
    clock.now += seconds
    monitor.record(Record(0, "EM", Measure.LIKELIHOOD, iteration, -5.0, 0.0, {}))
    monitor.left_to_gain(left, target)


def test_no_progress_without_a_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert bar_for(1) is None


def test_no_progress_unless_verbose(look, notebook):
    look()
    assert bar_for(0) is None


def test_a_shell_without_a_kernel_is_a_terminal(look, monkeypatch):
    look()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    bar = bar_for(1)
    bar.close()
    assert isinstance(bar, progress._Terminal)


def test_what_is_quick_shows_nothing(look):
    terminal = look()
    bar = bar_for(1)
    bar.show(Line("mixture: EM", 1, 100))
    bar.close()
    assert terminal.getvalue() == ""


def test_what_is_not_shows_all_of_it(look, monkeypatch):
    terminal = look()
    monkeypatch.setattr(progress, "SHOWN_AFTER_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    bar = bar_for(1)
    bar.show(Line("mixture: EM", 3, 100, "objective -5", "at most 0:12 to go"))
    bar._timer.join()
    bar.close()
    for part in ("mixture: EM", "3/100", "objective -5", "at most 0:12 to go"):
        assert part in terminal.getvalue()


def test_a_bar_that_begins_before_there_is_anything_to_show(look, monkeypatch):
    terminal = look()
    monkeypatch.setattr(progress, "SHOWN_AFTER_SECONDS", 0.0)
    bar = bar_for(1)
    bar._timer.join()
    bar.show(Line("mixture: EM", 3, 100))
    bar.close()
    assert "mixture: EM" in terminal.getvalue()


def test_below_a_cell(notebook, clock):
    bar = bar_for(1)
    clock.now += 1
    bar.show(Line("EM <1>", 1, 100))
    assert notebook == []
    clock.now += 1
    bar.show(Line("EM <1>", 2, 100, "objective -5", "at most 0:12 to go"))
    clock.now += 0.1  # too soon for another
    bar.show(Line("EM <1>", 3, 100))
    (shown,) = notebook
    assert shown["text/plain"] == "EM <1>  2/100  objective -5  0:02  at most 0:12 to go"
    assert "EM &lt;1&gt;" in shown["text/html"]
    assert 'value="2" max="100"' in shown["text/html"]
    clock.now += 1
    bar.show(Line("EM <1>", 4, 100))
    bar.close()
    assert [one["text/plain"] for one in notebook[1:]] == ["EM <1>  4/100  0:03", ""]


def test_a_fit_that_showed_nothing_leaves_nothing(notebook, clock):
    bar_for(1).close()
    assert notebook == []


def test_time_by_passes_and_by_the_limit_of_passes(learning):
    with Monitor(Limits(max_iter=100)) as monitor:
        monitor.begin_stage(0, 1, "EM", 100)
        assert monitor.time_left() == ""
        a_pass(monitor, learning, 0, 50.0)  # the first of a stage is no measure
        assert monitor.time_left() == ""
        a_pass(monitor, learning, 1, 2.0)
        a_pass(monitor, learning, 2, 2.0)
        assert monitor.time_left() == "at most 3:16 to go"


def test_time_by_what_is_left_to_gain(learning):
    with Monitor(Limits(max_iter=100)) as monitor:
        monitor.begin_stage(0, 1, "EM", 100)
        for iteration, left in enumerate((80.0, 40.0, 20.0, 10.0)):
            a_pass(monitor, learning, iteration, 3.0, left, target=1.25)
        assert monitor.time_left() == "about 0:09 to go, at most 4:51"


def test_time_is_at_most_what_max_time_leaves(learning):
    with Monitor(Limits(max_iter=100, max_time=20.0)) as monitor:
        monitor.begin_stage(0, 1, "EM", 100)
        assert monitor.time_left() == "at most 0:20 to go"
        for iteration in range(3):
            a_pass(monitor, learning, iteration, 2.0)
        assert monitor.time_left() == "at most 0:14 to go"


def test_time_of_restarts_is_that_of_those_that_have_ended(learning):
    with Monitor(Limits(max_iter=100)) as monitor:
        monitor.begin_stage(0, 4, "EM", 100)
        a_pass(monitor, learning, 0, 3.0)
        a_pass(monitor, learning, 1, 3.0)
        assert monitor.time_left() == ""  # how many passes the others take is not known
        monitor.begin_stage(1, 4, "EM", 100)
        assert monitor.time_left() == "about 0:18 to go"
        a_pass(monitor, learning, 0, 4.0)
        assert monitor.time_left() == "about 0:14 to go"
        monitor.begin_stage(2, 1, "last", 100)  # the best of them goes on alone
        assert monitor.time_left() == ""


def test_restarts_of_another_process_are_no_measure(learning):
    with Monitor(Limits(max_iter=100)) as monitor:
        monitor.begin_stage(3, 5, "EM", 100)
        a_pass(monitor, learning, 0, 3.0)
        assert monitor.time_left() == ""
        monitor.begin_stage(4, 5, "EM", 100)
        assert monitor.time_left() == "about 0:03 to go"


def test_work_that_is_counted(notebook, clock, learning):
    with counted(4, "draws", 1) as advance:
        clock.now += 3
        learning.now += 3
        advance(1)
    assert [one["text/plain"] for one in notebook] == ["draws  1/4  0:03  about 0:09 to go", ""]


def test_no_thread_is_left_behind(look):
    look()
    bar = bar_for(1)
    bar.close()
    bar._timer.join(timeout=60)
    assert not bar._timer.is_alive()
