"""Whom this process believes: itself, root, and the account that root names in /etc/fallow/fallow.toml.

What anybody else could have put somewhere is no store, no configuration, no template and no service: it isn't
read, and a sentence says whose it is and what to do. Of root's file only the table ``[system]`` is read here;
it may be the service's configuration as well.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from collector.file_trust import ROOT_UID, Distrust, distrust, distrust_inside, distrust_way, read_trusted
from collector.procfs.accounts import name_of, uid_of, unmapped_uid
from service.errors import ClientError, Untrusted

SYSTEM_FILE = Path("/etc/fallow/fallow.toml")
ONLY_ROOT = frozenset({ROOT_UID})


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What root says of this machine; ``None``: nothing."""

    account: str | None = None
    data: Path | None = None


class BadSystemFile(ClientError):
    """Root's file cannot be used."""


def system(file: Path = SYSTEM_FILE) -> System:
    """What root's file says; nothing where there is none. Raises ``BadSystemFile``, ``Untrusted``."""
    try:
        result = read_trusted(file, ONLY_ROOT)
    except (FileNotFoundError, NotADirectoryError):
        return System()
    except OSError as error:
        raise BadSystemFile(f"cannot read {file} ({error.strerror}); root can let you: chmod a+r") from error
    if isinstance(result, Distrust):
        if unmapped_uid() is not None:
            return System()  # a user namespace without root: whose it is cannot be told
        mend = result.remedy("root")
        raise Untrusted(
            f"{file} says which account is believed, so nobody but root may write it, and {result}"
            + (f"; as root: `{mend}`" if mend else "")
        )
    return _system(result, file)


def trusted_uids(file: Path = SYSTEM_FILE) -> frozenset[int]:
    """The uids that this process believes. Raises as ``system`` does."""
    account = system(file).account
    uid = None if account is None else uid_of(account)
    return frozenset({os.geteuid(), ROOT_UID} | ({uid} if uid is not None else set()))


def must_trust(folder: Path) -> None:
    """Raises ``Untrusted`` for a DATA folder that somebody else could have prepared, or something in it.

    One that is not there is nobody's.
    """
    try:
        fault = distrust_inside(folder, trusted_uids())
    except OSError:
        return  # not there, or closed to us: whoever opens it says so
    if fault is not None:
        raise Untrusted(f"{folder} is not used: {because(fault)}, or name another folder with --data")


def way_fault(path: Path) -> str | None:
    """Why others could exchange what is at ``path``, there or not yet; ``None`` where they can't.

    Raises OSError.
    """
    fault = distrust_way(path, trusted_uids())
    return None if fault is None else because(fault)


def read_text(path: Path, instead: str = "--data or --config") -> str:
    """A file as text; ``instead`` are the flags that name another.

    Raises ``Untrusted``, OSError, UnicodeDecodeError.
    """
    result = read_trusted(path, trusted_uids())
    if isinstance(result, Distrust):
        raise Untrusted(f"{path} is not read: {because(result)}, or name another with {instead}")
    return result.decode("utf-8-sig")


def beyond_root(path: Path) -> str | None:
    """Why somebody else than root could have written what is there; ``None``: nobody. Raises OSError."""
    fault = distrust(path, ONLY_ROOT)
    return None if fault is None else str(fault)


def is_mine(path: Path) -> bool:
    """Whether something is there that nobody but who is trusted has a hand in."""
    try:
        return distrust(path, trusted_uids()) is None
    except OSError:
        return False


def believed() -> str:
    """Whom this process believes, in words. Raises as ``system`` does."""
    account = system().account
    first, *more = dict.fromkeys((name_of(os.geteuid()), "root", *([] if account is None else [account])))
    return first if not more else f"{', '.join([first, *more[:-1]])} or {more[-1]}"


def because(fault: Distrust) -> str:
    """A fault, why it counts, and what mends it."""
    mend = fault.remedy(name_of(os.geteuid()))
    if fault.owner is None:
        return f"{fault}, so others could put there what you would run or believe: `{mend}`"
    if mend is None:
        return f"{fault}, and only what belongs to {believed()} is believed: use one of your own"
    return (
        f"{fault}, and only what belongs to {believed()} is believed: if it is to be yours, look through it "
        f"and have root run `{mend}`"
    )


def _system(text: bytes, file: Path) -> System:
    from collector.toml_text import read_toml

    try:
        table = read_toml(text.decode("utf-8-sig")).get("system", {})
    except ValueError as error:
        raise BadSystemFile(f"{file} is not valid TOML: {error}") from error
    account, data = _text(table, "account", file), _text(table, "data", file)
    if data is not None and not data.startswith("/"):
        raise BadSystemFile(f"{file}: system.data is a folder's absolute path, not {data!r}")
    return System(account=account or None, data=Path(data) if data else None)


def _text(table: object, key: str, file: Path) -> str | None:
    value = table.get(key) if isinstance(table, dict) else table
    if value is None or isinstance(value, str):
        return value
    raise BadSystemFile(f"{file}: system.{key} is text in quotes, not {value!r}")
