"""A site's own commands: how their arguments are filled in, and how one is run without harm to the service.

No shell ever reads a command: it is a list of arguments, each filled in by itself. What is filled in names
jobs, and jobs are named by whoever starts them; so a value that could be read as an option, or as more than
a name, is no argument. Whatever a command prints, or however long it takes, the service goes on.
"""

import json
import os
import re
import selectors
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.engines.notify_owner import plain
from collector.file_trust import Distrust, distrust
from collector.model import JobId

FIELDS = ("job", "user", "namespace", "pod", "partition", "qos", "number", "message")
"""What can be filled in. The last is a sentence for people, and only telling has it."""
POD = "pod:"
"""How the ids of Kubernetes' pods begin (``collector.inventory.kubernetes``)."""
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
VALUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,252}")
"""What names of accounts, pods, partitions and jobs are made of; 253 is a pod's longest name."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "busybox"})
WEB = ("https://", "http://127.0.0.1", "http://localhost", "http://[::1]")
"""How a webhook's address begins: without encryption it stays on this machine."""
KEPT_BYTES = 4096
"""Of what a command prints: its first lines are for people, and the rest is thrown away as it comes."""
SAID_CHARS = 160
"""Of these in a sentence: it is shown on two lines of a terminal."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""For what a command runs: the service's own PATH may lead into somebody's home."""


class BadHook(ValueError):
    """A hook that can't be used, or not for this job; the sentence is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A site's commands for the jobs of some places. An empty command: there is none.

    ``idle_s`` and ``warnings`` are the site's rule, which stands for consent in these places; ``idle_s``
    ``None``: only who agreed is paused. ``message``: what owners are told, empty: the usual sentence.
    """

    name: str
    namespaces: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    tell: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    limit_s: float = 30.0
    idle_s: int | None = None
    warnings: int = 2
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: ``code`` ``None`` where it was cut off at its limit, or could not begin."""

    code: int | None
    found: str

    @property
    def is_well(self) -> bool:
        """Whether it says that it did what it was asked."""
        return self.code == 0


def hook_at(hooks: Sequence[Hook], namespace: str | None, partition: str = "", qos: str = "") -> Hook | None:
    """The hook of a place; ``partition`` may be several, as Slurm writes those of a waiting job."""
    partitions = frozenset(partition.split(","))
    return next(
        (
            each
            for each in hooks
            if namespace in each.namespaces or qos in each.qos or partitions & each.partitions
        ),
        None,
    )


def pod_of(job: JobId) -> tuple[str | None, str | None]:
    """Namespace and name of a pod's job; one that bears a uid, or is none, has neither."""
    if not job.startswith(POD) or "/" not in job:
        return None, None
    namespace, _, name = job.removeprefix(POD).partition("/")
    return namespace, name.partition("@")[0]


def check_command(command: Sequence[str], fields: Sequence[str]) -> None:
    """Whether a command can be filled in with these fields. Raises ``BadHook``."""
    if not command:
        return
    program = command[0]
    if PLACEHOLDER.search(program):
        raise BadHook(f"{program!r}: the program itself is not filled in")
    if program.startswith("http"):
        if not program.startswith(WEB) or len(command) > 1:
            raise BadHook(f"{program}: a webhook is one https:// address, or http:// of this machine")
        return
    if not program.startswith("/"):
        raise BadHook(f"{program!r} is no absolute path: whose program it is must not hang on a PATH")
    if Path(program).name in SHELLS and any(re.fullmatch(r"-\w*c\w*", each) for each in command[1:]):
        raise BadHook(f"{program} with -c reads text as commands: write them into a file, and name that")
    unknown = [name for each in command for name in PLACEHOLDER.findall(each) if name not in fields]
    if unknown:
        raise BadHook(f"{{{unknown[0]}}} is none of {', '.join(f'{{{each}}}' for each in fields)}")


def filled(command: Sequence[str], values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The command for one job. Raises ``BadHook`` where a value is unknown, or could be more than a name."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        found = values.get(name)
        if found is None:
            raise BadHook(f"the hook needs its {name}, which is not known")
        if name == "message":
            return plain(found)
        if not VALUE.fullmatch(found) or ".." in found:
            raise BadHook(f"its {name} {plain(found)!r} has characters that a hook is never given")
        return found

    result = tuple(PLACEHOLDER.sub(value, each) for each in command)
    for before, after in zip(command, result, strict=True):
        if after.startswith("-") and not before.startswith("-"):
            raise BadHook(f"{after[:40]!r} could be read as an option")
    return result


def shown(command: Sequence[str]) -> str:
    """A command on one line, each argument as a shell would need it."""
    import shlex

    return plain(shlex.join(command))


def fault(command: Sequence[str], trusted: frozenset[int]) -> str | None:
    """Why a command's program isn't run: somebody else could have written it, or could lead elsewhere."""
    if not command or command[0].startswith("http"):
        return None
    path = Path(command[0])
    try:
        result = distrust(path, trusted)
        if isinstance(result, Distrust):
            return str(result)
        return None if path.is_file() and os.access(path, os.X_OK) else f"{path} is no program"
    except OSError as error:
        return f"{path} can't be looked at: {(error.strerror or str(error)).lower()}"


def run(command: Sequence[str], about: Mapping[str, object], limit_s: float) -> Ended:
    """Run it to its end, or to its limit; ``about`` is given as JSON on its input. Blocks. Never raises."""
    body = json.dumps(about, ensure_ascii=True).encode()
    if command[0].startswith("http"):
        return _posted(command[0], body, limit_s)
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/")},
            start_new_session=True,
        )
    except OSError as error:
        return Ended(code=None, found=f"it could not begin: {(error.strerror or str(error)).lower()}")
    with process:
        try:
            kept, in_time = _followed(process, body, time.monotonic() + limit_s)
        finally:
            _end_group(process.pid)  # also what it left running in its group
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        code = process.wait()
    said = _said(kept)
    if not in_time:
        return Ended(code=None, found=f"it was ended after its limit of {limit_s:g} s{said}")
    how = f"ended with {code}" if code >= 0 else f"was ended by signal {-code}"
    return Ended(code=code if code >= 0 else 128 - code, found=f"its command {how}{said}")


def _followed(process: "subprocess.Popen[bytes]", body: bytes, until_s: float) -> tuple[bytes, bool]:
    """The first of what it printed, and whether it ended by itself. A child that it leaves keeps nobody."""
    assert process.stdin is not None and process.stdout is not None
    kept, left = bytearray(), memoryview(body)
    ending = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as waiting:
            for pipe in (process.stdin, process.stdout):
                os.set_blocking(pipe.fileno(), False)
            waiting.register(process.stdout, selectors.EVENT_READ)
            waiting.register(process.stdin, selectors.EVENT_WRITE)
            waiting.register(ending, selectors.EVENT_READ)
            while (remaining_s := until_s - time.monotonic()) > 0:
                events = [key.fileobj for key, _ in waiting.select(remaining_s)]
                if process.stdin in events:
                    left = _given(process.stdin.fileno(), left)
                    if not left:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                if process.stdout in events and not _taken(process.stdout.fileno(), kept):
                    waiting.unregister(process.stdout)
                if ending in events:
                    _taken(process.stdout.fileno(), kept)
                    return bytes(kept), True
        return bytes(kept), False
    finally:
        os.close(ending)


def _given(descriptor: int, left: memoryview) -> memoryview:
    """What is still to be written; nothing where nobody reads it."""
    try:
        return left[os.write(descriptor, left) :]
    except BlockingIOError:
        return left
    except OSError:
        return left[:0]


def _taken(descriptor: int, kept: bytearray) -> bool:
    """Read what is there, and keep it while there is room; whether more may come."""
    try:
        read = os.read(descriptor, 65_536)
    except BlockingIOError:
        return True
    except OSError:
        return False
    kept += read[: max(0, KEPT_BYTES - len(kept))]
    return bool(read)


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A webhook is the address that the site wrote, and no other."""

    def redirect_request(self, *_: object) -> None:
        return None


def _posted(url: str, body: bytes, limit_s: float) -> Ended:
    """Send it; an answer of 2xx is a good end. ``limit_s`` is of each silence."""
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    asking = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    try:
        with opener.open(asking, timeout=limit_s) as answer:
            return Ended(code=0, found=f"its webhook answered {answer.status}")
    except urllib.error.HTTPError as error:
        return Ended(code=error.code, found=f"its webhook answered {error.code}")
    except (OSError, ValueError) as error:
        return Ended(code=None, found=f"its webhook did not answer: {plain(str(error))[:SAID_CHARS]}")


def _said(kept: bytes) -> str:
    text = plain(kept.decode(errors="replace").strip())[:SAID_CHARS]
    return f": {text}" if text else ""
