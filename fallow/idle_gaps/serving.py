"""An inference server as foreground: its GPU waits while nobody asks. A middleware for any ASGI application.

    app = IdleGaps(app, "cuda")        # FastAPI, Starlette: app.add_middleware(IdleGaps, device="cuda")

A *step* of a server is the answer to whoever asked when nobody else did: what it took alone and beside a
background job is what the guard compares. From the last answer to the next request its gap is announced.
What is computed between requests (a cache that is warmed, say) is not seen: announce gaps by hand there.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack
from typing import Any

import torch

from fallow.idle_gaps.announce import Announcer, announcer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
"""As the ASGI specification has it (asgi.readthedocs.io, version 3)."""


class IdleGaps:
    """``app``, with its idle gaps announced where its launcher asks for that; else it costs two calls a
    request. For one event loop: a process with several announces none that another one's requests fill.
    """

    def __init__(
        self,
        app: Application,
        device: str | torch.device = "cuda",
        *,
        gaps: Announcer | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._now_s = app, now_s
        self._gaps = announcer(torch.device(device)) if gaps is None else gaps
        self._idle = ExitStack()
        self._asked = 0
        self._took_s: float | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One connection; a request that ends by an exception is an answer as well."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        is_first = self._asked == 0
        self._asked += 1
        began_s = self._now_s()
        if is_first:
            self._took_s = None
            self._idle.close()
        try:
            await self._app(scope, receive, send)
        finally:
            if is_first:
                self._took_s = self._now_s() - began_s
            self._asked -= 1
            if self._asked == 0:
                self._gaps.end_step(self._took_s)
                self._gaps.begin_step()  # its gap is of another kind than what a script does between steps
                self._idle.enter_context(self._gaps.gap("request"))
