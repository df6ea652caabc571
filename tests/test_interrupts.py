"""The signals of a terminal, each sent for real."""

from __future__ import annotations

import os
import signal
import time

import pytest

from gptrepl.interrupts import Interrupts
from gptrepl.keyboard import Keyboard


@pytest.fixture
def interrupts():
    return Interrupts(Keyboard(None))


def send(number):
    os.kill(os.getpid(), number)


def test_ctrl_c_without_work_does_nothing(interrupts):
    with interrupts.handled():
        send(signal.SIGINT)


def test_ctrl_c_stops_work_once(interrupts):
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            send(signal.SIGINT)
        with interrupts.working():
            send(signal.SIGINT)  # the second of two that come together


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_hangup_stops_work_and_gives_the_status(interrupts, number):
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            send(number)
        with interrupts.working():
            send(number)  # once is enough
    assert interrupts.status == 128 + number


def test_a_hangup_without_work_ends_the_shell(interrupts):
    stopped = []
    interrupts.stop_reading = lambda: stopped.append(True)
    with interrupts.handled():
        send(signal.SIGTERM)
    assert stopped
    assert interrupts.status == 143


def test_the_handlers_are_put_back(interrupts):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interrupts.handled():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_ctrl_z_gives_the_terminal_back_and_takes_it_again(interrupts, monkeypatch):
    said = []
    monkeypatch.setattr(interrupts.keyboard, "restore", lambda: said.append("restored"))
    monkeypatch.setattr(interrupts.keyboard, "hush", lambda: said.append("hushed"))
    kill = os.kill
    with interrupts.handled():
        monkeypatch.setattr("os.kill", lambda _pid, _number: said.append("stopped"))
        kill(os.getpid(), signal.SIGTSTP)
    assert said == ["restored", "stopped", "hushed"]


# --- Ctrl-C with Enter ----------------------------------------------------------------------------


def press_and_begin(interrupts):
    send(signal.SIGINT)
    interrupts.begun()


def linger(*, press):
    if press:
        send(signal.SIGINT)
    time.sleep(30)


def test_it_waits_for_the_work_and_stops_it_once_it_has_begun(interrupts):
    with interrupts.handled():
        interrupts.entered()
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            press_and_begin(interrupts)  # twice is once
    assert not interrupts.unspent


def test_it_waits_too_where_the_work_has_not_begun(interrupts):
    with interrupts.handled():
        interrupts.entered()
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            press_and_begin(interrupts)
        with interrupts.working():
            interrupts.begun()


@pytest.mark.parametrize("early", [True, False])
def test_work_that_does_not_say_that_it_has_begun_is_stopped_all_the_same(
    interrupts, monkeypatch, early
):
    monkeypatch.setattr("gptrepl.interrupts.HOLD", 0.01)
    with interrupts.handled():
        interrupts.entered()
        if early:
            send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            linger(press=not early)


def test_without_work_it_is_left_for_the_next_line_and_no_timer_runs(interrupts):
    with interrupts.handled():
        interrupts.entered()
        with interrupts.working():
            send(signal.SIGINT)
        assert interrupts.unspent
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_hangup_with_enter_stops_the_work_too(interrupts):
    with interrupts.handled():
        interrupts.entered()
        send(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            interrupts.begun()
    assert interrupts.status == 143


def test_what_is_shown_is_whole_before_the_work_stops(interrupts):
    shown = []
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            show_while_pressed(interrupts, shown)
        with interrupts.working(), interrupts.whole():
            pass
    assert shown == ["half", "whole"]


def show_while_pressed(interrupts, shown):
    with interrupts.whole():
        shown.append("half")
        send(signal.SIGINT)
        shown.append("whole")
    shown.append("never")


def test_what_cannot_be_shown_does_not_hold_ctrl_c(interrupts, monkeypatch):
    monkeypatch.setattr("gptrepl.interrupts.HOLD", 0.01)
    with interrupts.handled(), pytest.raises(KeyboardInterrupt), interrupts.working():
        stall(interrupts)


def stall(interrupts):
    with interrupts.whole():
        linger(press=True)


def test_a_line_that_is_read_is_stopped_until_it_is_entered(interrupts):
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt), interrupts.reading():
            send(signal.SIGINT)
        with interrupts.reading():
            interrupts.entered()
            send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.working():
            interrupts.begun()
