"""HTTP GET from many endpoints at once, each with its own deadline and its own limit in bytes.

A slow, dead, huge or lying endpoint costs only itself: what happened becomes a Failure with a sentence, never
an exception. Blocks up to the timeout. Environment proxies are not used: exporters are near by definition.

By aiohttp: httpx's pool looks at every connection for every request (encode/httpx, issue 3215), and of 1,000
endpoints 150 to 231 answered in time where this asks all (``bench/endpoints.py``).
"""

import asyncio
import os
import resource
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:  # it takes a tenth of a second to import, and not every service asks an endpoint
    import aiohttp

GZIP = 31
"""zlib's ``wbits`` for the gzip format: 15, the largest window, and 16 for its header."""
OK, REDIRECTS, REFUSED = 200, (301, 302, 303, 307, 308), (401, 403)
MOST_GPUS = 1024
"""Of one endpoint: a machine has 16 boards, 128 GPUs with MIG. Beyond it stands who speaks for a cluster."""
LEAST_BYTES = 16 << 20
"""Of a page that may name 1,024 GPUs, or fewer: an exporter of eight GPUs writes 100 KiB."""
GPU_BYTES = 16 << 10
"""Of a page for each GPU: forty series of 200 bytes, and as much again for holders and processes."""
PATIENCE = 1.5
"""Of the deadline of one endpoint: for all together, those included that waited for a free connection."""
KEPT_SECONDS = 120.0
"""How long a connection is kept for the next tick: longer than the slowest tick."""
KEPT_PART = 4
"""Up to a fourth of the files that the process may open are kept connections; with more endpoints none is: a
new connection costs 0.1 ms, a store that can open no file costs the service."""
HEADERS = {"Accept": "text/plain;version=0.0.4, text/plain;q=0.5", "Accept-Encoding": "gzip"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to ask for; ``headers`` may carry a secret and are never told."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What an endpoint answered, decompressed."""

    content: bytes
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an endpoint gave nothing, as a sentence a person can act on."""

    reason: str
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one answer: the whole exchange in seconds, and its size in bytes after decompression.

    ``gpus`` is how many one endpoint may name within a day (``collector.dcgm.crowd``).
    At most ``concurrency`` endpoints are asked at a time; the others wait, but no longer than half a timeout
    beyond the first ones' own.
    """

    timeout_s: float = 5.0
    bytes_: int = LEAST_BYTES
    concurrency: int = 256
    gpus: int = MOST_GPUS

    @classmethod
    def of_gpus(cls, gpus: int, timeout_s: float) -> "Limits":
        """For endpoints that may name so many GPUs each, with as many bytes as those need."""
        return cls(timeout_s=timeout_s, gpus=gpus, bytes_=max(LEAST_BYTES, gpus * GPU_BYTES))


class Fetcher:
    """A kept connection to each endpoint, where they are not too many; released by ``close``.

    Whoever was not asked in time, because others had to be waited for, is asked first the next time.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: aiohttp.ClientSession | None = None
        self._missed: set[str] = set()

    def fetch(self, requests: Sequence[Request]) -> tuple[Body | Failure, ...]:
        """The answers in the order asked; blocks up to one and a half timeouts."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self._all(requests))

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        if self._loop is not None:
            if self._client is not None:
                self._loop.run_until_complete(self._client.close())
            self._loop.close()
        self._loop = self._client = None

    async def _all(self, requests: Sequence[Request]) -> tuple[Body | Failure, ...]:
        client = self._client = self._client or _client(len(requests))
        gate = asyncio.Semaphore(self._limits.concurrency)
        missed, self._missed = self._missed, set()

        async def one(request: Request) -> Body | Failure:
            started = time.monotonic()
            self._missed.add(request.url)
            try:
                async with asyncio.timeout(PATIENCE * self._limits.timeout_s), gate:
                    self._missed.discard(request.url)
                    return await self._one(client, request)
            except TimeoutError as error:
                return self._failed(error, request, started)

        order = sorted(range(len(requests)), key=lambda at: requests[at].url not in missed)
        answers = await asyncio.gather(*(one(requests[at]) for at in order))
        by_place = dict(zip(order, answers, strict=True))
        return tuple(by_place[at] for at in range(len(requests)))

    async def _one(self, client: "aiohttp.ClientSession", request: Request) -> Body | Failure:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                content = await _get(client, request, self._limits.bytes_)
        except Exception as error:
            return self._failed(error, request, started)
        return Body(content=content, duration_ms=(time.monotonic() - started) * 1e3)

    def _failed(self, error: Exception, request: Request, started: float) -> Failure:
        """The failure as a value; a bug is raised again."""
        reason = _reason(error, request.url, self._limits)
        if reason is None:
            raise error
        return Failure(reason=reason, duration_ms=(time.monotonic() - started) * 1e3)


def place(url: str) -> str:
    """The URL without the secrets it may carry, for names and messages."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


class _AnsweredError(Exception):
    """The endpoint answered, but not with what was asked for."""


class _TooLargeError(Exception):
    """The answer is over the limit."""


def _client(endpoints: int) -> "aiohttp.ClientSession":
    """How many are asked at once is the fetcher's to say, so the pool has no limit."""
    import aiohttp

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept = endpoints <= files // KEPT_PART
    pool = aiohttp.TCPConnector(
        limit=0, force_close=not kept, keepalive_timeout=KEPT_SECONDS if kept else None
    )
    return aiohttp.ClientSession(
        connector=pool,
        headers=HEADERS,
        timeout=aiohttp.ClientTimeout(),
        cookie_jar=aiohttp.DummyCookieJar(),
        # Unpacked in _get, which stops at the limit; aiohttp would unpack all of it.
        auto_decompress=False,
    )


async def _get(client: "aiohttp.ClientSession", request: Request, limit: int) -> bytes:
    async with client.get(request.url, headers=request.headers, allow_redirects=False) as response:
        if response.status != OK:
            raise _AnsweredError(_status(response))
        if response.headers.get("content-encoding", "identity") not in ("gzip", "identity"):
            raise _AnsweredError(f"content encoding {response.headers['content-encoding']!r}")
        unzip = zlib.decompressobj(GZIP) if "content-encoding" in response.headers else None
        content = bytearray()
        async for chunk in response.content.iter_any():
            # One byte above the limit is enough to know: what unpacks to gigabytes is never unpacked whole.
            content += unzip.decompress(chunk, limit + 1 - len(content)) if unzip else chunk
            if len(content) > limit:
                raise _TooLargeError
        if unzip is not None and not unzip.eof:
            raise _AnsweredError("a gzip stream that ends too early")
        return bytes(content)


def _status(response: "aiohttp.ClientResponse") -> str:
    status = f"HTTP {response.status} {response.reason or ''}".strip()
    if response.status in REDIRECTS and "location" in response.headers:
        return f"{status}, a redirect to {place(response.headers['location'])}: give that URL instead"
    if response.status in REFUSED:
        return f"{status}: give a token or a password that may read it"
    return status


def _reason(error: Exception, url: str, limits: Limits) -> str | None:
    """The sentence for an expected failure, ``None`` for a bug."""
    import aiohttp

    where = place(url)
    match error:
        case TimeoutError():
            return f"{where} gave no complete answer within {limits.timeout_s:g} s"
        case _TooLargeError():
            return f"{where} answered with more than {limits.bytes_} bytes: is it really an exporter?"
        case _AnsweredError():
            return f"{where} answered with {error}"
        case zlib.error():
            return f"{where} answered with broken gzip ({error})"
        case aiohttp.ClientConnectorError(os_error=cause):
            # asyncio puts words of its own where the system's would be; getaddrinfo's numbers are below 0
            number = cause.errno or 0
            why = os.strerror(number) if number > 0 else cause.strerror or cause
            return f"cannot connect to {where}: {why}; is the exporter running there?"
        case aiohttp.ClientError() | OSError() | UnicodeError():
            return f"reading {where} failed: {error or type(error).__name__}"
        case _:
            return None
