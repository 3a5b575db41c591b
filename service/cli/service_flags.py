"""What can be typed about the service itself and who may ask it: ``fallow service`` and ``fallow token``."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

AddVerb = Callable[[str, str], argparse.ArgumentParser]

SHELLS = ("bash", "zsh", "fish")
ROLES = ("viewer", "user", "operator", "node")


def add_verbs(add: AddVerb) -> None:
    """All of them; ``add`` makes a verb with the flags that every verb has."""
    _service(add)
    _node(add)
    _token(add)
    _store(add)
    shell = add("completion", "print what has your shell complete verbs and flags")
    shell.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="whose")


def _service(add: AddVerb) -> None:
    orders = _orders(add("service", "have systemd run the service: install, status, uninstall"))
    install = _order(orders, "install", "write the unit, enable it and start it")
    install.add_argument("--dry-run", action="store_true", help="print the units, and do nothing")
    install.add_argument(
        "--as-root",
        action="store_true",
        help="run the service itself as root, without an account of its own",
    )
    install.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="ACCOUNT",
        help="root may run files of this account, who could have it run anything (repeatable)",
    )
    uninstall = _order(orders, "uninstall", "stop it and remove the unit; what was measured stays")
    for order in (install, uninstall):
        order.add_argument("--yes", action="store_true", help="do it; without, say what would be done")
    _order(orders, "tell-failure", "for systemd: tell the operators that the service does not start")
    status = _order(orders, "status", "whether it is installed, runs, and answers")
    _json(status)
    for order in (install, uninstall, status):
        order.add_argument("--user", action="store_true", help="for this user alone instead of the machine")
        order.add_argument(
            "--node", action="store_true", help="`fallow node`, which pushes to a head, instead of a service"
        )


def _node(add: AddVerb) -> None:
    node = add("node", "measure this machine and push it to a head; nothing of it listens")
    node.add_argument("--head", metavar="URL", help="the head's service, for example https://head:9475")
    node.add_argument(
        "--source",
        action="append",
        metavar="SOURCE",
        help="nvml (default) | dcgm=URL; may be repeated",
    )
    node.add_argument("--tick", type=float, metavar="S", help="seconds between two readings (default 10)")


def _token(add: AddVerb) -> None:
    orders = _orders(add("token", "let somebody ask the service over TCP: add, list, revoke"))
    adding = _order(orders, "add", "make a token and print it once")
    adding.add_argument("--user", required=True, metavar="NAME", help="whom it stands for")
    adding.add_argument(
        "--role",
        choices=ROLES,
        default="user",
        metavar="ROLE",
        help="viewer: see; user: act on own jobs (default); operator: act on all; node: a machine that "
        "pushes (`fallow node`), and NAME is its hostname",
    )
    adding.add_argument("--expires", default="30d", metavar="TIME", help="how long it lasts (default 30d)")
    _json(_order(orders, "list", "the tokens that were made, without their secrets"))
    revoke = _order(orders, "revoke", "end a token, or all of a user, at once")
    revoke.add_argument("name", metavar="ID|USER", help="as `fallow token list` shows it")


def _store(add: AddVerb) -> None:
    orders = _orders(
        add(
            "store",
            "look through the store for damage, mend it, take over with it: check, salvage, take-over",
        )
    )
    _json(_order(orders, "check", "read all of it, sealed days too; nothing is changed"))
    salvage = _order(orders, "salvage", "keep what can be read; what is damaged is set aside")
    taking = _order(orders, "take-over", "from its next start on this store is that of the head of all nodes")
    for order in (salvage, taking):
        order.add_argument("--yes", action="store_true", help="do it; without, say what would be done")


Orders: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""argparse has no public name for it."""


def _orders(verb: argparse.ArgumentParser) -> Orders:
    return verb.add_subparsers(dest="order", metavar="ORDER", required=True)


def _order(orders: Orders, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = orders.add_parser(name, help=about, description=about)
    parser.add_argument(
        "--data", type=Path, default=argparse.SUPPRESS, metavar="DIR", help="the store's folder"
    )
    return parser


def _json(order: argparse.ArgumentParser) -> None:
    order.add_argument("--json", action="store_true", help="objects instead of a table")
