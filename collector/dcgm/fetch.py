"""HTTP GET from many endpoints at once, each with its own deadline and its own limit in bytes.

A slow, dead, huge or lying endpoint costs only itself: what happened becomes a Failure with a sentence, never
an exception. Blocks up to the timeout. Environment proxies are not used: exporters are near by definition.
"""

import asyncio
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

GZIP = 31
MOST_GPUS = 1024
"""Of one endpoint: a machine has 16 boards, 128 GPUs with MIG. Beyond it stands who speaks for a cluster."""
LEAST_BYTES = 16 << 20
"""Of a page that may name 1,024 GPUs, or fewer: an exporter of eight GPUs writes 100 KiB."""
GPU_BYTES = 16 << 10
"""Of a page for each GPU: forty series of 200 bytes, and as much again for holders and processes."""
PATIENCE = 1.5
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
    """A kept connection to each endpoint; made at the first fetch, released by ``close``."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None

    def fetch(self, requests: Sequence[Request]) -> tuple[Body | Failure, ...]:
        """The answers in the order asked; blocks up to one and a half timeouts."""
        if self._loop is None or self._client is None:
            self._loop = asyncio.new_event_loop()
            pool = httpx.Limits(
                max_connections=self._limits.concurrency,
                max_keepalive_connections=self._limits.concurrency,
            )
            self._client = httpx.AsyncClient(headers=HEADERS, trust_env=False, timeout=None, limits=pool)
        return self._loop.run_until_complete(self._all(self._client, requests))

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        if self._loop is not None and self._client is not None:
            self._loop.run_until_complete(self._client.aclose())
            self._loop.close()
        self._loop = self._client = None

    async def _all(
        self, client: httpx.AsyncClient, requests: Sequence[Request]
    ) -> tuple[Body | Failure, ...]:
        gate = asyncio.Semaphore(self._limits.concurrency)

        async def one(request: Request) -> Body | Failure:
            started = time.monotonic()
            try:
                async with asyncio.timeout(PATIENCE * self._limits.timeout_s), gate:
                    return await self._one(client, request)
            except TimeoutError as error:
                return self._failed(error, request, started)

        return tuple(await asyncio.gather(*(one(request) for request in requests)))

    async def _one(self, client: httpx.AsyncClient, request: Request) -> Body | Failure:
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


async def _get(client: httpx.AsyncClient, request: Request, limit: int) -> bytes:
    async with client.stream("GET", request.url, headers=dict(request.headers)) as response:
        if response.status_code != httpx.codes.OK:
            raise _AnsweredError(_status(response))
        if response.headers.get("content-encoding", "identity") not in ("gzip", "identity"):
            raise _AnsweredError(f"content encoding {response.headers['content-encoding']!r}")
        unzip = zlib.decompressobj(GZIP) if "content-encoding" in response.headers else None
        content = bytearray()
        async for chunk in response.aiter_raw():
            content += unzip.decompress(chunk, limit + 1 - len(content)) if unzip else chunk
            if len(content) > limit:
                raise _TooLargeError
        if unzip is not None and not unzip.eof:
            raise _AnsweredError("a gzip stream that ends too early")
        return bytes(content)


def _status(response: httpx.Response) -> str:
    status = f"HTTP {response.status_code} {response.reason_phrase}".strip()
    if response.has_redirect_location:
        return f"{status}, a redirect to {place(response.headers['location'])}: give that URL instead"
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return f"{status}: give a token or a password that may read it"
    return status


def _reason(error: Exception, url: str, limits: Limits) -> str | None:
    """The sentence for an expected failure, ``None`` for a bug."""
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
        case httpx.ConnectError():
            return f"cannot connect to {where}: {error}; is the exporter running there?"
        case httpx.HTTPError() | httpx.InvalidURL() | OSError() | UnicodeError():
            return f"reading {where} failed: {error or type(error).__name__}"
        case _:
            return None
