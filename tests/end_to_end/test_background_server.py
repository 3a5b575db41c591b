"""A background job in the idle gaps of a server: real processes and service on the stand-in driver.

The server answers over HTTP behind the ASGI middleware; a client asks again and again, with pauses between.
"""

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from examples.demo.stage import Setting, Stage
from examples.demo.stories import LONG_S, SETTINGS
from service.schemas.records import Job
from tests.end_to_end.in_gaps import assert_in_gaps

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch (torch) is not installed"),
]

AUTO = SETTINGS.replace("every_s = 2", "every_s = 1") + '[modes]\nbackground = "auto"\n'
COMPUTE_S, BETWEEN_S = 0.03, 0.09


@contextmanager
def asked(socket: Path) -> Iterator[list[int]]:
    """Somebody asks the server as long as this lasts; what each answer's status was."""
    over, answers = threading.Event(), list[int]()

    def ask() -> None:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=60) as client:
            while not over.wait(BETWEEN_S):
                answers.append(client.get("http://server/").status_code)

    thread = threading.Thread(target=ask, name="client", daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


def job(stage: Stage, name: str) -> Job:
    return max((each for each in stage.jobs() if each.name == name), key=lambda each: each.submitted_ms or 0)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_job_computes_between_a_servers_answers_and_not_while_it_answers(
    compiled: None, tmp_path: Path
) -> None:
    with Stage(tmp_path / "stage", Setting(gpus=1, speed=1, settings=AUTO, patience=3)) as stage:
        socket, busy, log = (stage.folder / name for name in ("s.sock", "busy", "log"))
        words = ("--socket", str(socket), "--compute", str(COMPUTE_S), "--busy", str(busy))
        server = stage.run("front", ("--memory", "24GiB"), ("server", *words))
        stage.until("it listens", lambda: socket.exists() or server.process.poll() is not None, 2 * LONG_S)
        assert server.process.poll() is None, server.text
        front = job(stage, "front").job
        with asked(socket) as answers:
            noted = ("--done", str(stage.folder / "done"), "--log", str(log))
            stage.run("sweep", ("--background", "--memory", "4GiB", "--grace", "2s"), ("sweep", *noted))
            stage.until("the sweep computes", lambda: len(lines(log)) > 20, 2 * LONG_S)
            stage.until(
                "what it gives and costs is measured",
                lambda: "GPU time harvested" in stage.fallow("explain", front).stdout,
                2 * LONG_S,
            )
            answered = len(lines(busy))
            stage.until("it answers on", lambda: len(lines(busy)) > answered + 200, 2 * LONG_S)
            stage.order("keep", front, "--alone")
            stage.until("the sweep waits again", lambda: job(stage, "sweep").state == "pending", LONG_S)
            stage.order("keep", front, "--no-alone")
            made = len(lines(log))
            stage.until("it computes again", lambda: len(lines(log)) > made + 10, 2 * LONG_S)
        assert set(answers) == {200} and server.process.poll() is None
        (kept,) = {row["foreground"] for row in stage.rows("harvests", from_ts="2020-01-01T00:00Z")}
        assert kept == front and job(stage, "sweep").gpus == ()
        assert_in_gaps(busy, log)
