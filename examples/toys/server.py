"""A toy inference server: it computes while it answers, and its GPU waits while nobody asks.

An ASGI application behind ``fallow.idle_gaps.serving.IdleGaps``, as any server announces its idle gaps;
uvicorn runs it on a Unix socket. With ``--busy`` a line tells when each answer was computed (nanoseconds of
the steady clock).

    fallow run --memory 24GiB -- python -m examples.toys.server --socket server.sock
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn

from examples.toys import toil
from examples.toys.board import GIB
from fallow.idle_gaps.serving import Application, IdleGaps, Message, Receive, Send


def main() -> None:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(prog="server")
    parser.add_argument("--socket", type=Path, required=True, help="where it answers")
    parser.add_argument("--needs", type=float, default=20.0, help="GiB that its model takes on its GPU")
    parser.add_argument(
        "--compute", type=float, default=0.03, help="seconds that its GPU takes for an answer"
    )
    parser.add_argument("--busy", type=Path, help="a line for each answer: begin and end (steady clock, ns)")
    asked = parser.parse_args()

    device = toil.devices_or_end()[0]
    device.allocate(int(asked.needs * GIB))
    device.busy(40)
    toil.say(f"server: answers on {asked.socket}")
    app = IdleGaps(answering(asked.compute, asked.busy), "cpu")
    config = uvicorn.Config(app, uds=str(asked.socket), log_level="warning", lifespan="off")
    asyncio.run(uvicorn.Server(config).serve())


def answering(compute_s: float, busy: Path | None) -> Application:
    """The model behind the middleware: it takes so long for each answer."""
    note: Callable[[str], object] = busy.open("a", buffering=1).write if busy is not None else len

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        began_ns = time.monotonic_ns()
        time.sleep(compute_s)  # as a model does that keeps its process's only thread
        note(f"{began_ns} {time.monotonic_ns()}\n")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"an answer\n"})

    return app


if __name__ == "__main__":
    main()
