"""The door that nodes push to: ``POST /v1/nodes/ticks``. What a body means is the receiver's to say."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from fastapi import APIRouter, Request

from collector.clock import SystemClock
from collector.model import NodeName
from collector.sources.nodes.receiver import NodeKey, NodeReceiver, NotTheHead, NotYours
from collector.sources.nodes.wire import BadBatch
from service.api.gate import NODE_TICKS
from service.api.roles import RuledRoute, caller_of
from service.control.errors import BadOrder, NotAllowed, WrongState
from service.errors import ServiceBusy
from service.schemas.service import HeadTerm, NodeReceipt

THREADS = 2
"""Reading a page takes a millisecond of a core: more threads would only take turns with the service."""
NOBODY = (
    "this service takes in nothing that nodes push: start it with --source nodes, or write nodes into "
    "collect.sources. What the node measured waits in its spool"
)
MOST_WAITING = 64
"""Requests that wait for a thread; a node that is told to come again loses nothing."""


def node_routes(receiver: NodeReceiver | None) -> APIRouter:
    """The route, with the threads that read what is pushed; without a receiver it says what is missing."""
    router = APIRouter(route_class=RuledRoute)
    clock = SystemClock()
    pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="nodes")
    waiting = 0

    @router.post(
        NODE_TICKS,
        summary="Take in ticks that a node measured; only a node's own token may",
        response_model=NodeReceipt,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )
    async def ticks(request: Request) -> NodeReceipt:
        nonlocal waiting
        if receiver is None:
            raise BadOrder(NOBODY)
        caller, body = caller_of(request), await request.body()
        key = NodeKey(node=NodeName(caller.name), credential=caller.credential)
        if waiting >= MOST_WAITING:
            raise ServiceBusy(f"{waiting} nodes push at this moment; nothing is lost, come again in a moment")
        waiting += 1
        try:
            loop = asyncio.get_running_loop()
            receipt = await loop.run_in_executor(pool, lambda: receiver.accept(key, body, clock.now_ms()))
        except NotTheHead as error:
            raise WrongState(f"{error}. What the node measured waits in its spool") from error
        except NotYours as error:
            raise NotAllowed(str(error)) from error
        except BadBatch as error:
            raise BadOrder(str(error)) from error
        finally:
            waiting -= 1
        return NodeReceipt(
            spool=receipt.spool,
            stored=receipt.stored,
            received=receipt.received,
            now_ms=clock.now_ms(),
            is_full=receipt.is_full,
            notes=receipt.notes,
            head=None if receipt.head is None else HeadTerm(**asdict(receipt.head)),
        )

    return router
