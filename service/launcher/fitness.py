"""What a launcher doesn't take of a service's word, though it believes the service. Pure.

A lease is devices and a few settings. A job would be started with whatever else stood in one, and many names
of an environment run code.
"""

import re

from advisor.jobs.gpu_sharing import LEASE_NAMES, PIPE_DIRECTORY
from advisor.jobs.model import Command, ReallocateCommand, ResumeCommand, StartCommand
from collector.model import GpuUuid, JobId

LONGEST_VALUE = 1_000
"""Of a setting: one limit a device, and a machine has some dozens of those."""
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
"""As drivers name GPUs and MIG instances. Devices are joined by commas and stand in commands as words."""
_PAGE = re.compile(r"/[A-Za-z0-9._:/@+-]{1,255}")
_JOB = re.compile(r"[A-Za-z][A-Za-z0-9]*:[0-9]{1,19}")


def objection(command: Command) -> str | None:
    """Why a directive's lease isn't taken; ``None`` for a directive that may be carried out."""
    match command:
        case StartCommand() | ResumeCommand() | ReallocateCommand():
            page = command.page if isinstance(command, StartCommand) else ""
            if page and not _PAGE.fullmatch(page):
                return f"{page[:128]!r} is no page of idle gaps, so the background job is not started"
            return _device_objection(command.gpus) or _setting_objection(command.settings)
        case _:
            return None


def job_id(value: object) -> JobId | None:
    """The id of a submitted job, as a service says it; ``None`` for what is none."""
    return JobId(value) if isinstance(value, str) and _JOB.fullmatch(value) else None


def _device_objection(gpus: tuple[GpuUuid, ...]) -> str | None:
    odd = next((each for each in gpus if not _DEVICE.fullmatch(each)), None)
    return None if odd is None else f"{odd[:128]!r} is no device, so the lease is not taken"


def _setting_objection(settings: tuple[tuple[str, str], ...]) -> str | None:
    strange = sorted({name for name, _ in settings} - LEASE_NAMES)
    if strange:
        named = ", ".join(name[:64] if name.isprintable() else repr(name[:64]) for name in strange[:8])
        return f"a lease may not set {named}, so it is not taken; it may set {', '.join(sorted(LEASE_NAMES))}"
    for name, value in settings:
        if not value.isprintable() or len(value) > LONGEST_VALUE:
            return f"the lease sets {name} to what is no setting, so it is not taken"
        if name == PIPE_DIRECTORY and not value.startswith("/"):
            return f"the lease sets {name} to {value!r}, which is no absolute path, so it is not taken"
    return None
