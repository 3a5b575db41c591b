"""The file that a node's token is in: who can read it, and whose it is made."""

import os
import stat
from pathlib import Path

from service.errors import FallowError
from service.secrets import REFERENCE
from service.systemd import SystemdTrouble

BEGINNING = "${file:"
MODE = 0o640
"""Root writes it, the account's group reads it."""


class TokenExposed(FallowError):
    """Others can read a token; the message says how to mend that."""


def named(reference: str) -> Path | None:
    """The file that a reference names; ``None`` where it is a variable."""
    if REFERENCE.fullmatch(reference) and reference.startswith(BEGINNING):
        return Path(reference[len(BEGINNING) : -1]).expanduser()
    return None


def must_be_secret(reference: str) -> None:
    """Raise ``TokenExposed`` where everybody on the machine can read or write the token's file.

    A file that is not there is no fault here: the push says so, and goes on once it is.
    """
    file = named(reference)
    if file is None:
        return
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return
    if mode & stat.S_IRWXO:
        raise TokenExposed(
            f"{file} holds this node's token, and everybody on this machine can read or write it "
            f"(mode {mode:04o}): whoever has read it can push in this node's name. Run `chmod o= {file}`, "
            "revoke the token at the head (`fallow token revoke NODE`) and make another"
        )


def must_know_its_head(config: Path) -> Path:
    """The token's file of a node that a unit is to run. Reads ``config``.

    Raises ``SystemdTrouble`` where the file or what a unit needs of it is missing, ``FallowError`` for what
    isn't valid in it.
    """
    from service.config.file import load

    if not config.exists():
        raise SystemdTrouble(
            f'there is no {config}; write into it:\n[node]\nhead = "https://HEAD"\n'
            'token = "${file:/etc/fallow/node-token}"'
        )
    node = load(config, {}).config.node
    if not node.head:
        raise SystemdTrouble(f"{config} names no head in [node]")
    file = named(node.token)
    if file is None:
        raise SystemdTrouble(
            f'{config} has no token = "${{file:PATH}}" in [node]: a unit\'s environment is no place for one'
        )
    if not file.is_file():
        raise SystemdTrouble(
            f"there is no {file}: write into it what `fallow token add --role node` printed at the head"
        )
    return file


def give(file: Path, account: str) -> None:
    """Make the file root's, to be read by the account's group and by nobody else. Raises ``FallowError``."""
    import grp

    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchown(handle, 0, grp.getgrnam(account).gr_gid)
            os.fchmod(handle, MODE)
        finally:
            os.close(handle)
    except (OSError, KeyError) as error:
        raise TokenExposed(f"{file} cannot be made readable by {account}: {error}") from error
