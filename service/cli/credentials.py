"""What a Prometheus server wants to see: headers, a token or a password, a CA. Secrets never stand in argv.

A command line can be read by everybody on the machine and lands in histories, so what looks like a secret
there is refused with the way to give it: an environment variable or a file.
"""

import argparse
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from service.errors import FallowError

TOKEN_VARIABLE = "FALLOW_PROMETHEUS_TOKEN"
PASSWORD_VARIABLE = "FALLOW_PROMETHEUS_PASSWORD"
AUTHORIZATION = "Authorization"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = re.compile(r"authorization|cookie|token|secret|password|key|credential", re.IGNORECASE)


class BadCredentials(FallowError):
    """What was given for the server cannot be used, or must not be given like that."""


def add_flags(verb: argparse.ArgumentParser) -> None:
    """The flags that ``wanted`` reads."""
    verb.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="sent with each request, e.g. 'X-Scope-OrgID: team'; may be repeated; no secrets",
    )
    verb.add_argument(
        "--header-file", type=Path, metavar="FILE", help="lines NAME: VALUE, for headers that are secret"
    )
    verb.add_argument(
        "--token-file", type=Path, metavar="FILE", help=f"a bearer's token (else ${TOKEN_VARIABLE})"
    )
    verb.add_argument("--login", metavar="NAME", help="the user of a basic login; its password comes from")
    verb.add_argument(
        "--password-file", type=Path, metavar="FILE", help=f"this file (else ${PASSWORD_VARIABLE})"
    )
    verb.add_argument("--ca-file", type=Path, metavar="FILE", help="the CA (PEM) behind the server's https")


def wanted(flags: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, object]:
    """The part of an import's order that opens the server's door. Raises ``BadCredentials``.

    ``headers`` may be told; ``secrets`` are headers that may not; ``ca_pem`` is a certificate's text.
    """
    if _has_password(flags.url):
        raise BadCredentials(
            f"a password in --url can be read by everybody on this machine; give --login, and the password "
            f"in --password-file or ${PASSWORD_VARIABLE}"
        )
    headers = _headers(flags.header, "--header")
    for name in headers:
        if _SECRET.search(name):
            raise BadCredentials(
                f"the header {name} looks like a secret, and a command line can be read by everybody on this "
                f"machine; put the line into a file and give --header-file, or use ${TOKEN_VARIABLE}"
            )
    secrets = _headers(_text(flags.header_file).splitlines(), "--header-file")
    secrets |= _authorization(flags, environment)
    return {"headers": headers, "secrets": secrets, "ca_pem": _text(flags.ca_file) or None}


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:  # no URL at all: whoever opens it says so
        return False


def _authorization(flags: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    token = _text(flags.token_file).strip() or environment.get(TOKEN_VARIABLE, "")
    if flags.login is None:
        if flags.password_file is not None:
            raise BadCredentials("--password-file needs --login NAME beside it")
        return {AUTHORIZATION: f"Bearer {token}"} if token else {}
    if token:
        raise BadCredentials(
            f"a login and a token cannot both be sent; take away --login, or the token (${TOKEN_VARIABLE})"
        )
    password = _text(flags.password_file).rstrip("\r\n") or environment.get(PASSWORD_VARIABLE, "")
    if not password:
        raise BadCredentials(f"--login needs a password: give --password-file or ${PASSWORD_VARIABLE}")
    pair = b64encode(f"{flags.login}:{password}".encode()).decode()
    return {AUTHORIZATION: f"Basic {pair}"}


def _headers(lines: Iterable[str], where: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not _NAME.fullmatch(name) or not value or not value.isprintable():
            raise BadCredentials(
                f"{where}: number {number} is no header; give NAME: VALUE, for example 'X-Scope-OrgID: team'"
            )
        headers[name] = value
    return headers


def _text(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadCredentials(f"cannot read {path}: {error}; check the path and its rights") from error
