"""The signals of a terminal, each sent for real."""

from __future__ import annotations

import os
import signal

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
