"""What can be configured of a machine that pushes what it measures to a head."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from service.config.fields import Misplaced, bounded, told
from service.secrets import REFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """A machine that pushes what it measures to a head: `fallow node`.

    What it reads, and how often, is in `[collect]` ([how](nodes.md)).
    """

    head: str = told("", "the address of the head's service, for example `https://head:9475` (flag `--head`)")
    token: str = told(
        "${FALLOW_TOKEN}",
        "this machine's token (`fallow token add --role node`), as `${NAME}` or `${file:PATH}`",
    )
    ca_file: str = told("", "the certificate (PEM) of the CA behind its `https`, beside the system's")
    spool_mib: int = bounded(
        200,
        1,
        65_536,
        "how much may wait on disk while the head is away; beyond it the oldest go, and are told",
    )
    spool_hours: float = bounded(
        24.0, 0.1, 47, "for how long it may wait; a head takes in nothing of two days ago"
    )
    stored_hours: float = bounded(
        24.0,
        0,
        47,
        "for how long what the head has stored stays here, within the same room: a head that is restored "
        "from a back-up not older than that has everything again",
    )

    def __post_init__(self) -> None:
        if self.head:
            _check(self.head)
        if not REFERENCE.fullmatch(self.token):
            raise Misplaced(
                "token is a secret, and others may read this file: write ${NAME} for a variable of the "
                "node's environment, or ${file:PATH}",
                "token",
            )


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isprintable() or parts.username is not None:
        raise Misplaced(f"{url!r} is no address of a head, for example https://head:9475", "head")
