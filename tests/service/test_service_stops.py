"""A service ends when it is asked to: at any moment of its start, with slow sources, however often."""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import data_folder as client_place
from service.client import connect
from service.server.shutdown import LIMIT_S
from tests.service.conftest import Running, is_well, start, until

pytestmark = pytest.mark.process

TINY = """
[collect]
tick_s = 1
[simulated]
nodes = 2
gpus_per_node = 4
backfill_days = 3
"""
STEPS_S = (0.2, 0.6, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0)
"""After its start; on a slow machine the later ones fall into what the earlier ones are meant for."""


def ended(service: Running) -> str:
    """What it complained of; fails when it had to be left behind, or died of something."""
    said, complaints = service.stop()
    assert "left behind" not in complaints and "Traceback" not in complaints, complaints
    assert service.process.returncode in (0, -signal.SIGTERM), (said, complaints)
    return complaints


def test_service_that_is_asked_to_end_while_it_starts_ends_and_leaves_a_sound_store(tmp_path: Path) -> None:
    begun_s = time.monotonic()
    made = [start(tmp_path / f"data-{step}", config=TINY) for step in STEPS_S]
    try:
        for step, service in zip(STEPS_S, made, strict=True):
            time.sleep(max(0.0, begun_s + step - time.monotonic()))
            service.process.send_signal(signal.SIGTERM)
        for service in made:
            ended(service)
            assert not client_place.announcement_file(service.data).exists()
            if client_place.store_file(service.data).exists():
                assert connect(service.data).mode == "file"
    finally:
        for service in made:
            service.process.kill()


def test_signals_that_come_in_a_crowd_end_it_once(tmp_path: Path) -> None:
    service = start(tmp_path / "data", config=TINY)
    try:
        until("the service is well", lambda: is_well(service))
        for _ in range(50):
            service.process.send_signal(signal.SIGTERM)
            service.process.send_signal(signal.SIGINT)
        assert ended(service) == ""
        assert service.process.returncode == 0
    finally:
        service.process.kill()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
        listener.shutdown(socket.SHUT_RDWR)


def test_source_that_does_not_answer_does_not_hold_up_the_end(tmp_path: Path, silent: str) -> None:
    slow = "[collect]\ntick_s = 30\nsource_timeout_s = 20\n"
    service = start(tmp_path / "data", words=("--source", f"dcgm={silent}"), config=slow)
    try:
        until("the service answers", lambda: client_place.announced(service.data) is not None)
        assert ended(service) == ""
    finally:
        service.process.kill()


STUCK = """
import logging, sys, threading, time
from service.server.shutdown import Ending
logging.basicConfig(level=logging.WARNING)
ending = Ending()
ending.hurry_by(lambda: print("hurried", flush=True))
ending.hear_signals(limit_s=float(sys.argv[1]))
threading.Thread(target=time.sleep, args=(600,), name="sealing").start()
print("ready", flush=True)
ending.asked.wait()
"""


def test_what_does_not_end_is_left_behind_by_name_when_the_time_is_over() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, "0.5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    said, complaints = process.communicate(timeout=LIMIT_S + 20)
    assert process.returncode == 0
    assert "hurried" in said
    assert "left behind: " in complaints and "sealing in run (threading.py:" in complaints, complaints
