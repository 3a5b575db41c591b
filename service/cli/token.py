"""``fallow token``: who may ask the service over TCP, as what, and until when."""

import argparse

from analytics import text
from collector.clock import SystemClock
from service.api import tokens
from service.cli.screen import Column, console, print_json, table
from service.config.flags import settle
from service.control.interface import Role
from service.durations import parse_span


def run_token(flags: argparse.Namespace) -> int:
    """Make, list or revoke; the service sees it with the next request."""
    match flags.order:
        case "add":
            _add(flags)
        case "list":
            _list(flags)
        case _:
            for token in tokens.revoke(settle(flags).data, flags.name):
                print(f"Revoked {token.id}, which stood for {token.user} as {token.role}.")
    return 0


def _add(flags: argparse.Namespace) -> None:
    span_ms = round(parse_span(flags.expires).total_seconds() * 1000)
    token, secret = tokens.add(
        settle(flags).data,
        user=flags.user,
        role=Role(flags.role),
        span_ms=span_ms,
        now_ms=SystemClock().now_ms(),
    )
    print(secret)
    console(stderr=True).print(
        f"Token {token.id} for {token.user}, {token.role}, lasts {text.length(span_ms / 1000)}. It is shown "
        "this once; hand it over as FALLOW_TOKEN, with FALLOW_URL.",
        highlight=False,
        soft_wrap=True,
    )


def _list(flags: argparse.Namespace) -> None:
    now_ms = SystemClock().now_ms()
    tokens_by_expiry = sorted(tokens.kept(settle(flags).data), key=lambda token: token.expires_ms)
    if flags.json:
        print_json([_row(token, now_ms) for token in tokens_by_expiry], flags)
        return
    if not tokens_by_expiry:
        print("No tokens beside DATA/token; `fallow token add --user NAME` makes one.")
        return
    columns = [Column(title=name) for name in ("id", "user", "role", "made", "lasts")]
    console().print(table(columns, [_line(token, now_ms) for token in tokens_by_expiry]))


def _line(token: tokens.Token, now_ms: int) -> tuple[str, ...]:
    lasts = "expired" if token.has_expired(now_ms) else text.length_cell((token.expires_ms - now_ms) / 1000)
    age = f"{text.length_cell((now_ms - token.made_ms) / 1000)} ago"
    return token.id, token.user, token.role.value, age, lasts


def _row(token: tokens.Token, now_ms: int) -> dict[str, object]:
    return {
        "id": token.id,
        "user": token.user,
        "role": token.role.value,
        "made_ms": token.made_ms,
        "expires_ms": token.expires_ms,
        "expired": token.has_expired(now_ms),
    }
