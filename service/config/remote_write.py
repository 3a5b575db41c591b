"""What can be configured of pushing to a store of metrics that a site has already."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from service.config.fields import Misplaced, bounded, names, told
from service.secrets import REFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWriteConfig:
    """Pushing what each tick measured to a Prometheus, VictoriaMetrics, Mimir or Thanos.

    The series are those of `/metrics`, by the Prometheus Remote-Write protocol, version 1
    ([how](prometheus.md#remote-write)). Secrets don't belong here: `${NAME}` is taken from the environment,
    `${file:PATH}` is the content of a file.
    """

    url: str = told("", "where to, for example `http://victoria:8428/api/v1/write`; empty: nothing is pushed")
    every_s: float = bounded(
        30.0, 1, 3600, "the newest tick is pushed so often, and what could not be sent is tried again"
    )
    login: str = told("", "the user of a basic login; with `password`")
    password: str = told("", "its password, as `${NAME}` or `${file:PATH}`")
    token: str = told("", "a bearer's token, as `${NAME}` or `${file:PATH}`")
    headers: Mapping[str, str] = names(
        '`[remote_write.headers]`: sent with each request, for example `X-Scope-OrgID = "team"`'
    )
    labels: Mapping[str, str] = names(
        "`[remote_write.labels]`: a label = its value on every series that has no such label; `instance` is "
        "this machine's name unless it stands here"
    )
    ca_file: str = told("", "the certificate (PEM) of the CA behind its `https`, beside the system's")
    waiting_mib: int = bounded(
        64,
        1,
        4096,
        "how much may wait in memory while it does not answer: eight hours of a hundred GPUs; beyond it the "
        "oldest go, and are counted",
    )

    def __post_init__(self) -> None:
        if self.url:
            _check_url(self.url)
        for name in ("password", "token"):
            value = getattr(self, name)
            if value and not REFERENCE.fullmatch(value):
                raise Misplaced(
                    f"{name} is a secret, and others may read this file: write ${{NAME}} for a variable of "
                    "the service's environment, or ${file:PATH}",
                    name,
                )
        if bool(self.login) != bool(self.password):
            raise Misplaced("login and password go together: give both or none", "login")
        if self.login and self.token:
            raise Misplaced("a login and a token cannot both be sent: take one of them away", "token")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isprintable():
        raise Misplaced(f"{url!r} is no address, for example http://victoria:8428/api/v1/write", "url")
    if parts.username is not None or parts.password is not None:
        raise Misplaced("the address holds a login; give it as login and password", "url")
