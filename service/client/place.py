"""Where a store lies on disk and how its running service is found: the layout of the DATA directory.

DATA/fallow.duckdb, DATA/sealed/, DATA/token and DATA/tokens.json (0600), DATA/service.json (while a service
runs), DATA/fallow.toml (optional). The Unix socket is DATA/fallow.sock, or lies in /run/fallow where the
service may write there.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from service.trouble import Trouble

DATA_VARIABLE = "FALLOW_DATA"
URL_VARIABLE = "FALLOW_URL"
TOKEN_VARIABLE = "FALLOW_TOKEN"
SOCKET_VARIABLE = "FALLOW_SOCKET"
CODE_VARIABLE = "FALLOW_DASHBOARD_CODE"
"""Whoever knows its value may act from the dashboard as the user that it runs as."""
HOSTS_VARIABLE = "FALLOW_DASHBOARD_HOSTS"
"""Names that the dashboard answers to beside the machine's own, with commas between."""
DEFAULT_DATA = ".fallow"
SOCKET_NAME = "fallow.sock"
RUN_DIR = Path("/run/fallow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a running service says of itself in DATA/service.json; stale after a ``kill -9``.

    ``socket`` is the path of its Unix socket, ``None`` where it has none.
    """

    url: str
    pid: int
    started_ms: int
    version: str
    socket: str | None = None


class Nowhere(Trouble):
    """The DATA directory cannot be named."""


def data_dir(chosen: Path | None = None) -> Path:
    """The DATA directory: the one chosen, else $FALLOW_DATA, else ``./.fallow``; it need not exist.

    Raises ``Nowhere``.
    """
    wanted = chosen or Path(os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)
    try:
        return wanted.expanduser().absolute()
    except FileNotFoundError as error:
        raise Nowhere("the folder that this was started in is gone; name another with --data") from error
    except RuntimeError as error:
        raise Nowhere(f"no user has the folder {wanted}; name another with --data") from error


def store_file(data: Path) -> Path:
    """The one DuckDB file."""
    return data / "fallow.duckdb"


def token_file(data: Path) -> Path:
    """The secret that lets a reader in; mode 0600."""
    return data / "token"


def tokens_file(data: Path) -> Path:
    """The further tokens, hashed, with whom they stand for and until when; mode 0600."""
    return data / "tokens.json"


def machine_sockets() -> tuple[Path, ...]:
    """Where a service of the whole machine, or of this user's session, has its socket (systemd's folders)."""
    session = os.environ.get("XDG_RUNTIME_DIR")
    own = (Path(session) / "fallow" / SOCKET_NAME,) if session else ()
    return (RUN_DIR / SOCKET_NAME, *own)


def announcement_file(data: Path) -> Path:
    """Where a running service says how it is reached."""
    return data / "service.json"


def announced(data: Path) -> Announcement | None:
    """What the service of this DATA last said of itself; ``None`` when there is none or it is unreadable."""
    try:
        said = json.loads(announcement_file(data).read_text(encoding="utf-8"))
        return Announcement(
            url=str(said["url"]),
            pid=int(said["pid"]),
            started_ms=int(said["started_ms"]),
            version=str(said["version"]),
            socket=None if said.get("socket") is None else str(said["socket"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def announce(data: Path, announcement: Announcement) -> None:
    """Write DATA/service.json, whole or not at all."""
    target = announcement_file(data)
    draft = target.with_suffix(f".{announcement.pid}")
    draft.write_text(json.dumps(asdict(announcement)), encoding="utf-8")
    draft.replace(target)


def withdraw(data: Path, pid: int) -> None:
    """Remove DATA/service.json if it is this process's own."""
    said = announced(data)
    if said is not None and said.pid == pid:
        announcement_file(data).unlink(missing_ok=True)


def token(data: Path) -> str | None:
    """The token from $FALLOW_TOKEN, else from DATA/token; ``None`` where neither can be read."""
    if given := os.environ.get(TOKEN_VARIABLE):
        return given.strip()
    try:
        return token_file(data).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
