"""How a load speaks: a JSON line when it is ready, one for each line it is told; its pipe closes, it ends."""

import json
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

Words = list[str]


def say(**answer: Any) -> None:
    """One line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def serve(answer: Callable[[Words], dict[str, Any]], work: Callable[[], None] | None = None) -> None:
    """Say ``ready``, then work, answering in between, until the pipe closes; without work it waits."""
    told: queue.SimpleQueue[Words | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    say(ready=True)
    while True:
        try:
            words = told.get(block=work is None)
        except queue.Empty:
            words = []
        if words is None:
            return
        if words:
            say(**answer(words))
        elif work is not None:
            work()


def _listen(told: "queue.SimpleQueue[Words | None]") -> None:
    for line in sys.stdin:
        told.put(line.split())
    told.put(None)
