"""Where the service is reached: a TCP port, a Unix socket, who may come in, and the announcement of both."""

import os
import resource
import socket
from dataclasses import dataclass
from pathlib import Path

from collector.clock import SystemClock
from service import data_folder as client_place
from service.api.app import Answers, make_app
from service.api.audit import Audit
from service.api.gate import RequestLimits
from service.api.identity import Identity, Keys
from service.api.tokens import Tokens
from service.config.model import ApiConfig
from service.server.http_server import Server
from service.server.person_limits import Bounds
from service.server.startup import bind, make_token
from service.server.unix_socket import UnixListener, open_local
from service.trust.hosts import LOOPBACK, is_loopback
from service.version import own_version

DOCUMENTS = ("/healthz", "/docs", "/openapi.json")
"""What anybody may read: it says what this program is, and nothing of this machine."""

SPARE_FILES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """Both listening sockets, and what callers are told apart by; ``close`` takes them away."""

    api: ApiConfig
    data: Path
    tcp: socket.socket
    local: UnixListener | None
    identity: Identity
    remarks: tuple[str, ...]
    connections: int

    @property
    def url(self) -> str:
        """The address on TCP, as a client on this machine writes it."""
        host, port = self.tcp.getsockname()[:2]
        reach = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{reach}:{port}"

    def server(self, answers: Answers, bounds: Bounds, audit: Audit | None = None) -> Server:
        """The HTTP server on both, not yet started; ``audit`` writes down orders and refusals."""
        api, host = self.api, self.api.host
        documents = (*DOCUMENTS, "/metrics") if api.open_metrics else DOCUMENTS
        rules = RequestLimits(
            identity=self.identity,
            open_paths=frozenset(documents),
            hosts=LOOPBACK if is_loopback(host) else frozenset(),
            send_timeout_s=api.send_timeout_s,
            receive_timeout_s=api.receive_timeout_s,
            allowance=bounds.allowance,
        )
        listeners = [self.tcp] if self.local is None else [self.tcp, self.local.listener]
        closing = None if answers.acting is None else answers.acting.closing
        app = make_app(answers, rules, own_version(), audit)
        return Server(
            app,
            listeners,
            bounds=bounds,
            receive_timeout_s=api.receive_timeout_s,
            closing=closing,
        )

    def announce(self, started_ms: int) -> None:
        """Write down in DATA how the service is reached."""
        announcement = client_place.Announcement(
            url=self.url,
            pid=os.getpid(),
            started_ms=started_ms,
            version=own_version(),
            socket=None if self.local is None else str(self.local.path),
        )
        client_place.announce(self.data, announcement)

    def close(self) -> None:
        """Close both, and take back what was announced."""
        client_place.withdraw(self.data, os.getpid())
        if self.local is not None:
            self.local.close()
        self.tcp.close()


def open_front(api: ApiConfig, data: Path, *, port_fixed: bool) -> RequestFilter:
    """Both sockets, bound. Raises ``ServiceRefused``."""
    connections = _allow_files(api.connections)
    keys = Keys(
        token=make_token(data),
        tokens=Tokens(data),
        operators=frozenset(api.operators),
        now_ms=SystemClock().now_ms,
    )
    tcp = bind(api.host, api.port, fall_back=not port_fixed)
    try:
        local, remark = open_local(api.socket, data, os.environ)
    except BaseException:
        tcp.close()
        raise
    return RequestFilter(
        api=api,
        data=data,
        tcp=tcp,
        local=local,
        identity=Identity(keys),
        remarks=(remark,) if remark else (),
        connections=connections,
    )


def _allow_files(connections: int) -> int:
    """How many connections there can be; the soft limit of open files is raised as far as the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < files:
        most = files if hard == resource.RLIM_INFINITY else min(files, hard)
        soft = max(soft, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(4, min(connections, soft - SPARE_FILES))
