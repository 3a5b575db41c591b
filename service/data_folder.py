"""Where a store lies on disk and how its running service is found: the layout of the DATA directory.

DATA/fallow.duckdb, DATA/sealed/, DATA/token and DATA/tokens.json (0600), DATA/service.json (while a service
runs), DATA/fallow.toml (optional). The Unix socket is DATA/fallow.sock, or lies in /run/fallow where the
service may write there. What somebody else could have put into DATA is not read (``service.trust.believed``).
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from service.errors import ClientError
from service.trust.believed import must_trust, read_text, system

DATA_VARIABLE = "FALLOW_DATA"
URL_VARIABLE = "FALLOW_URL"
TOKEN_VARIABLE = "FALLOW_TOKEN"
SOCKET_VARIABLE = "FALLOW_SOCKET"
CODE_VARIABLE = "FALLOW_DASHBOARD_CODE"
"""Whoever knows its value may act from the dashboard as the user that it runs as."""
HOSTS_VARIABLE = "FALLOW_DASHBOARD_HOSTS"
"""Names that the dashboard answers to beside the machine's own, with commas between."""
STATE_VARIABLE = "XDG_STATE_HOME"
STATE = Path("~/.local/state")
"""Where the XDG Base Directory Specification has what a program remembers between its runs. Not in its data
home: what was measured means something on this machine alone, and a user's systemd unit has it there."""
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


class Nowhere(ClientError):
    """The DATA directory cannot be named."""


def data_dir(chosen: Path | None = None) -> Path:
    """The DATA directory: the one chosen, else $FALLOW_DATA, else ``default_data``; it need not exist.

    Raises ``Nowhere``, and ``Untrusted`` where somebody else could have prepared it.
    """
    named = chosen or os.environ.get(DATA_VARIABLE)
    try:
        data = Path(named).expanduser().absolute() if named else default_data()
    except FileNotFoundError as error:
        raise Nowhere("the folder that this was started in is gone; name another with --data") from error
    except RuntimeError as error:
        raise Nowhere(f"no user has the folder {named}; name another with --data") from error
    must_trust(data)
    return data


def default_data() -> Path:
    """The DATA directory where none is named: the one that root names if we may read it, else our own.

    Never one of the folder that somebody stands in: anybody could have prepared it. Raises ``Nowhere``.
    """
    machines = system().data
    return machines if machines is not None and os.access(machines, os.R_OK | os.X_OK) else user_state()


def user_state() -> Path:
    """What this user's Fallow keeps: $XDG_STATE_HOME/fallow, else ~/.local/state/fallow. Raises ``Nowhere``.

    As the specification has it, a variable that is no absolute path counts as not set.
    """
    try:
        chosen = Path(os.environ.get(STATE_VARIABLE, "")).expanduser()
        root = chosen if chosen.is_absolute() else STATE.expanduser()
    except RuntimeError as error:
        raise Nowhere(
            f"there is no home folder to keep anything in; set {STATE_VARIABLE}, or name a folder with --data"
        ) from error
    if not root.is_absolute():
        raise Nowhere(f"$HOME is no absolute path ({root}); set it, or name a folder with --data")
    return root / "fallow"


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
    """What the service of this DATA last said of itself; ``None`` when there is none or it is unreadable.

    Raises ``Untrusted``.
    """
    try:
        document = json.loads(read_text(announcement_file(data)))
        return Announcement(
            url=str(document["url"]),
            pid=int(document["pid"]),
            started_ms=int(document["started_ms"]),
            version=str(document["version"]),
            socket=None if document.get("socket") is None else str(document["socket"]),
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
    announcement = announced(data)
    if announcement is not None and announcement.pid == pid:
        announcement_file(data).unlink(missing_ok=True)


def token(data: Path) -> str | None:
    """The token from $FALLOW_TOKEN, else from DATA/token; ``None`` where neither can be read.

    Raises ``Untrusted``.
    """
    if (secret := given_token()) is not None:
        return secret
    try:
        return read_text(token_file(data)).strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def given_token() -> str | None:
    """The token from $FALLOW_TOKEN."""
    secret = os.environ.get(TOKEN_VARIABLE)
    return secret.strip() if secret else None
