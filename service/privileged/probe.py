"""``fallow-probe``: reads /proc of all users for a service that may not. It changes nothing.

It says of a process what Fallow keeps of one: user, command, framework, container, job, and the few variables
that are on the allow-list; never a whole environment, and no file of anybody.

    request  {"verb": "look", "pids": [..]}             answer  {"processes": {pid: ..}, "settled": true}
             {"verb": "mps", "directory": ".." | null}           {"mps": ..}: which MPS daemon jobs may use
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from advisor.engines.mps import MpsSearch
from advisor.jobs.gpu_sharing import PIPE_DIRECTORY
from advisor.serialize import to_tree
from collector.model import NodeName, Process
from collector.procfs.accounts import uid_of
from collector.procfs.process_table import ProcessTable
from service.privileged.wire import MOST_BYTES, Handler, Refused, Request, serve, server

MOST_PIDS = 20_000
"""Asked for at once: more than one machine's GPUs have processes."""

MOST_PROCESSES_BYTES = MOST_BYTES - (64 << 10)
"""Of an answer, for its processes; the rest of it is a few words."""

TOO_MUCH = "environ: left out, for the answer about all processes was too long"


def handler(table: ProcessTable) -> Handler:
    """The closed list of what is answered."""
    search = MpsSearch()

    def handle(request: Request, uid: int) -> Mapping[str, object]:
        if request["verb"] == "mps":
            named = request["directory"]
            return {"mps": to_tree(search.find({} if named is None else {PIPE_DIRECTORY: str(named)}))}
        if request["verb"] != "look":
            raise Refused(f"{request['verb']!r} is not a verb of fallow-probe: it has `look` and `mps`")
        pids = [int(pid) for pid in request["pids"]]
        if len(pids) > MOST_PIDS or any(not 0 < pid < 1 << 31 for pid in pids):
            raise Refused(f"at most {MOST_PIDS} pids, each a positive number")
        processes = table.look(pids, time.time_ns() // 1_000_000)
        return {
            "processes": within(processes, MOST_PROCESSES_BYTES),
            "settled": table.has_settled(pids),
        }

    return handle


def within(processes: Mapping[int, Process], most_bytes: int) -> dict[str, object]:
    """The processes as they are sent; the longest without variables and command, until all fit."""
    trees = {str(pid): to_tree(process) for pid, process in processes.items()}
    sizes = {pid: len(json.dumps(tree)) for pid, tree in trees.items()}
    total = sum(sizes.values()) + 16 * len(sizes)  # a pid, its quotes and the commas
    for pid in sorted(sizes, key=lambda each: (-sizes[each], each)):
        if total <= most_bytes:
            break
        fat = processes[int(pid)]
        slim = replace(fat, environment=(), command=None, unreadable=(*fat.unreadable, TOO_MUCH))
        trees[pid] = to_tree(slim)
        total += len(json.dumps(trees[pid])) - sizes[pid]
    return trees


def main(argv: list[str] | None = None) -> int:
    """Serve until ended."""
    from service.server.systemd_notify import notify

    flags = options("fallow-probe", __doc__ or "").parse_args(argv)
    node = NodeName(os.uname().nodename)
    listener = server(flags.socket)
    notify("READY=1")
    # One thread at a time looks: the table belongs to one, and the service asks one question at a time.
    serve(listener, {0, flags.user}, one_at_a_time(handler(ProcessTable(node))))
    return 0


def one_at_a_time(handle: Handler) -> Handler:
    """The same, for whoever asks, one after the other."""
    import threading

    guard = threading.Lock()

    def guarded(request: Request, uid: int) -> Mapping[str, object]:
        with guard:
            return handle(request, uid)

    return guarded


def options(name: str, about: str) -> argparse.ArgumentParser:
    """What both processes are started with."""
    parser = argparse.ArgumentParser(prog=name, description=about.split("\n", maxsplit=1)[0])
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument(
        "--user", type=account, required=True, help="who may ask, beside root: the service's account"
    )
    return parser


def account(name: str) -> int:
    """The uid of an account, named or numbered. Raises ArgumentTypeError."""
    uid = int(name) if name.isdigit() else uid_of(name)
    if uid is None:
        raise argparse.ArgumentTypeError(f"there is no account {name}")
    return uid


if __name__ == "__main__":
    sys.exit(main())
