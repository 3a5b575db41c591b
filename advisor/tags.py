"""The name of each action, command and field where it is written or sent, and what older Fallows called it.

The only place that knows old names: what was stored under one is read for ever, and a launcher that an older
Fallow started is still told its commands by theirs. Pure.

    class Cancel or CancelCommand    tag ``Cancel``, as ``is`` in JSON    verb ``cancel``, in the journal
"""

import re
from collections.abc import Mapping
from typing import Any

FORMER_ACTIONS: Mapping[str, str] = {
    "Terminate": "Cancel",
    "Tell": "Notify",
    "ReleaseCaches": "ReleaseMemory",
    "CapAtNextLaunch": "SetEnvAtRestart",
    "Promise": "HoldForJob",
}
"""The tag of a step of a plan until 0.1.0, and its tag now; stored in plans and in the journal."""

FORMER_COMMANDS: Mapping[str, str] = {
    "Begin": "Start",
    "Suspend": "Pause",
    "Continue": "Resume",
    "Reshape": "Reallocate",
    "Release": "ReleaseMemory",
    "Requeued": "Requeue",
    "Say": "Notify",
    "Stop": "Cancel",
}
"""The tag of a command until 0.1.0, and its tag now; stored with jobs, and sent to launchers."""

FORMER_FIELDS: Mapping[str, Mapping[str, str]] = {
    "JobRecord": {
        "state": "stand",
        "message": "said",
        "notifications": "tells",
        "notified_ms": "told_ms",
        "paused_for_idling": "idled",
        "keep_count": "keeps",
        "last_seen_ms": "heard_ms",
        "exit_reason": "ending",
        "acknowledged": "handled",
    },
    "Report": {"state": "stand", "exit_reason": "ending", "acknowledged": "handled"},
}
"""By class, a field and its name until 0.1.0: in stored jobs, and in what launchers say."""

FORMER: Mapping[str, str] = {**FORMER_ACTIONS, **FORMER_COMMANDS}
"""Every tag that is read besides today's, and today's."""

_BEFORE: Mapping[str, str] = {tag: former for former, tag in FORMER_COMMANDS.items()}


def tag_of(kind: type) -> str:
    """The tag of a class: ``Cancel`` of ``CancelCommand``."""
    return kind.__name__.removesuffix("Command")


def verb_of(act: object) -> str:
    """What an action or a command does, as the journal names it: ``release-memory``."""
    return verb_of_kind(type(act))


def verb_of_kind(kind: type) -> str:
    """What actions or commands of a class do."""
    return re.sub(r"(?<!^)([A-Z])", r"-\1", tag_of(kind)).lower()


def as_before(kind: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a class as a Fallow of before 0.1.0 calls them."""
    former = FORMER_FIELDS.get(kind.__name__, {})
    return {former.get(name, name): value for name, value in fields.items()}


def as_now(kind: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a class under today's names, whichever they came with."""
    now = {former: name for name, former in FORMER_FIELDS.get(kind.__name__, {}).items()}
    return {now.get(name, name): value for name, value in fields.items()}


def former_command(tag: str) -> str:
    """What a launcher of before 0.1.0 calls a command of this tag."""
    return _BEFORE.get(tag, tag)
