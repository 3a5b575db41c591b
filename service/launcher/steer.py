"""Asks a job's own socket (a controller's, or the library's in a plain job), and reads what it answers.

One line, one line back (``fallow.control_server``), on a thread that ends with its answer or its time. A
training that only starts does not listen yet: it is asked again until it does.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from collector.model import GpuUuid
from fallow.control_server import ask
from service.launcher import model

# A training that only starts listens within seconds.
AGAIN_S = 0.2
NOT_READY = "not ready yet"

Answer = Mapping[str, object]


def asking(
    paths: Sequence[Path], words: Sequence[str], limit_s: float, then: Callable[[Answer], None]
) -> None:
    """Ask all on a thread, one after the other; ``then`` gets the first error there, else the last answer.

    No answer in time is ``{"error": why}``.
    """

    def ask_all() -> None:
        last: Answer = {}
        for path in paths:
            last = answer(path, words, limit_s)
            if "error" in last:
                break
        then(last)

    threading.Thread(target=ask_all, daemon=True, name=f"fallow-ask-{words[0]}").start()


def answer(path: Path, words: Sequence[str], limit_s: float) -> Answer:
    """The answer; blocks for ``limit_s`` at most. Never raises for what may happen."""
    until_s = time.monotonic() + limit_s
    while True:
        try:
            text = ask(path, words, timeout_s=max(0.1, until_s - time.monotonic()))
            result = json.loads(text) if text else {"error": "it ended before it answered"}
        except (ConnectionRefusedError, FileNotFoundError):
            result = {"error": NOT_READY}
        except TimeoutError:
            return {"error": f"it did not answer within {limit_s:g} s"}
        except (OSError, ValueError) as error:
            return {"error": f"it cannot be asked: {error}"}
        if not str(result.get("error", "")).startswith(NOT_READY) or time.monotonic() + AGAIN_S > until_s:
            return dict(result)
        time.sleep(AGAIN_S)


def suspended(answer: Answer) -> model.Event:
    """What an answer to ``suspend`` means for the job's course."""
    if "error" in answer:
        return model.Unsaved(why=str(answer["error"]))
    return model.Saved(ends_itself=True)


def changed(answer: Answer, target: tuple[GpuUuid, ...], before: tuple[GpuUuid, ...]) -> model.Event:
    """What an answer to ``devices`` means for the course of a job that held GPUs and is to have others."""
    why = answer.get("error")
    if why is None:
        return model.Reallocated(gpus=target)
    devices = answer.get("devices")
    gpus = tuple(GpuUuid(str(each)) for each in devices) if isinstance(devices, list) and devices else before
    return model.Reallocated(gpus=gpus, why=str(why))


def released(answer: Answer) -> model.Event:
    """What an answer to ``release-caches`` means for the job's course."""
    return model.MemoryReleased(why=None if "error" not in answer else str(answer["error"]))
