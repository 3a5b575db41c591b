"""The name of each action and command where it is written down or sent, and what older Fallows called it.

The only place that knows old names: what was stored under one is read for ever, and a launcher that an older
Fallow started is still told its commands by theirs. Pure.

    class Cancel or CancelCommand    tag ``Cancel``, as ``is`` in JSON    verb ``cancel``, in the journal
"""

import re
from collections.abc import Mapping

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

FORMER: Mapping[str, str] = {**FORMER_ACTIONS, **FORMER_COMMANDS}
"""Every tag that is read besides today's, and today's."""

_BEFORE: Mapping[str, str] = {tag: former for former, tag in FORMER_COMMANDS.items()}


def tag_of(kind: type) -> str:
    """The tag of a class: ``Cancel`` of ``CancelCommand``."""
    return kind.__name__.removesuffix("Command")


def verb_of(act: object) -> str:
    """What an action or a command does, as the journal names it: ``release-memory``."""
    return re.sub(r"(?<!^)([A-Z])", r"-\1", tag_of(type(act))).lower()


def former_command(tag: str) -> str:
    """What a launcher of before 0.1.0 calls a command of this tag."""
    return _BEFORE.get(tag, tag)
