"""Which processes stand on a GPU on behalf of all: a desktop's, a daemon of the driver. Nobody's jobs. Pure.

Anybody may call a process ``Xorg`` and draw with a program that computes. So what counts is who runs it: root
or an account of the system, a daemon that root's own daemon started, or a person whom logind has at one of
the machine's seats, as long as the driver lists the process for graphics alone and it holds little memory.
What is left is a process like any other. Where who runs it can't be seen, nobody is accused: it's doubtful,
and a display server that only draws a little holds nothing then.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from collector.inventory.holders import person_behind
from collector.inventory.placement import Where
from collector.model import GpuUuid, Process, ProcessKey, ProcessSample, ProcessType

GIB = 1 << 30
DESKTOP_BYTES = GIB
"""On one GPU. A compositor of two 4K screens holds 0.3 to 0.6 GiB, a browser's GPU process less; who draws
with more is at work (a renderer, a game) and is told as that."""

LEAST_CONTEXT_BYTES = 32 << 20
"""A process that computes by CUDA holds more (docs/hardware.md). Desktops of today draw by Vulkan, and the
driver lists their smaller programs as C+G, with 14 to 62 MiB each (pop-os/cosmic-epoch issue 1591)."""

MPS_SERVERS = frozenset({"nvidia-cuda-mps-server", "nvidia-cuda-mps"})
"""The name, and as /proc/PID/comm cuts it to 15 characters; the control daemon's is cut to the same."""

DAEMONS = MPS_SERVERS | {
    "nvidia-cuda-mps-control",
    "nv-hostengine",
    "nv-fabricmanage",
    "nvidia-persiste",
}
DISPLAY_SERVERS = frozenset(
    {
        *("X", "Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "plasmashell", "mutter"),
        *("cinnamon", "cosmic-comp", "Hyprland", "sway", "weston"),
    }
)
"""As nvidia-smi lists them, by the name in /proc/PID/comm."""

SYSTEM_ACCOUNTS = frozenset(
    {
        *("gdm", "Debian-gdm", "gdm-greeter", "sddm", "lightdm", "lxdm", "xdm", "greetd", "greeter"),
        *("nvidia-persistenced", "nvidia-dcgm", "dcgm"),
    }
)
"""Of greeters and of the driver's daemons, as distributions create them: nobody logs in as one of these."""


class Standing(Enum):
    """What a process is to those who hold the GPUs it is on."""

    BYSTANDER = "bystander"
    DOUBTFUL = "doubtful"
    WORKING = "working"


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """The GPUs that each process is on, and the bystanders.

    Of ``doubtful`` processes nobody can tell what they are on that GPU. ``drawn`` are GPUs on which one that
    computes elsewhere only draws a little, or a display server of which nobody can tell who sits before it:
    it doesn't hold those.
    """

    on: Where
    bystanders: frozenset[ProcessKey]
    doubtful: frozenset[tuple[ProcessKey, GpuUuid]]
    drawn: frozenset[tuple[ProcessKey, GpuUuid]]


def presence(samples: Sequence[ProcessSample], people: Mapping[ProcessKey, Process]) -> Presence:
    """Who is on which GPU, but for the bystanders and for windows of who sits at the machine."""
    by_process: defaultdict[ProcessKey, list[ProcessSample]] = defaultdict(list)
    for sample in samples:
        by_process[sample.key].append(sample)
    on: dict[ProcessKey, frozenset[GpuUuid]] = {}
    doubtful: set[tuple[ProcessKey, GpuUuid]] = set()
    drawn: set[tuple[ProcessKey, GpuUuid]] = set()
    for key, own in by_process.items():
        process, what = people.get(key), standing(people.get(key), own)
        if what is Standing.BYSTANDER:
            continue
        seat, windows = None if process is None else process.at_seat, _drawn(own)
        on[key] = frozenset(each.uuid for each in own) - (windows if seat else frozenset())
        screens = on[key] if what is Standing.DOUBTFUL and _shows_a_screen(process, own) else windows
        drawn |= {(key, uuid) for uuid in screens}
        unsure = on[key] if what is Standing.DOUBTFUL else windows if seat is None else ()
        doubtful |= {(key, uuid) for uuid in unsure}
    served = {key for key in on if _serves_its_person(key, on, people)}
    return Presence(
        on={key: uuids for key, uuids in on.items() if key not in served},
        bystanders=frozenset(by_process.keys() - on.keys() | served),
        doubtful=frozenset(doubtful),
        drawn=frozenset(drawn),
    )


def standing(process: Process | None, samples: Sequence[ProcessSample]) -> Standing:
    """What a process with these samples, one a GPU, is."""
    draws = all(each.type is ProcessType.GRAPHICS or _is_a_little_drawing(each) for each in samples)
    name = None if process is None else process.name
    is_named = name in DAEMONS or name in DISPLAY_SERVERS
    if not draws and not is_named:
        return Standing.WORKING
    if process is None or process.uid is None:
        return Standing.DOUBTFUL
    if process.container is not None or process.pod is not None:
        return (
            Standing.DOUBTFUL if process.uid == 0 and process.user is None else _of_person(process, samples)
        )
    if process.uid == 0 or process.user in SYSTEM_ACCOUNTS or _is_roots_server(process):
        return Standing.BYSTANDER
    return _of_person(process, samples)


def _of_person(process: Process, samples: Sequence[ProcessSample]) -> Standing:
    """A person's: a desktop's where logind has its owner at a seat."""
    if process.at_seat is False or not all(map(_is_a_little_drawing, samples)):
        return Standing.WORKING
    return Standing.DOUBTFUL if process.at_seat is None else Standing.BYSTANDER


def _is_a_little_drawing(sample: ProcessSample) -> bool:
    if sample.type is ProcessType.BOTH:
        return 0 < (sample.memory_used_bytes or 0) < LEAST_CONTEXT_BYTES
    return sample.type is ProcessType.GRAPHICS and (sample.memory_used_bytes or 0) <= DESKTOP_BYTES


def _shows_a_screen(process: Process | None, samples: Sequence[ProcessSample]) -> bool:
    """By its name and its little drawing, on the machine itself: in a container it's a person's."""
    if process is None or process.container is not None or process.pod is not None:
        return False
    return process.name in DISPLAY_SERVERS and all(map(_is_a_little_drawing, samples))


def _is_roots_server(process: Process) -> bool:
    """An MPS server runs as the user it serves; root's control daemon started it."""
    return process.name in MPS_SERVERS and process.parent_of_root in DAEMONS


def _drawn(samples: Sequence[ProcessSample]) -> frozenset[GpuUuid]:
    little = frozenset(sample.uuid for sample in samples if _is_a_little_drawing(sample))
    computed = {sample.uuid for sample in samples if sample.type is not ProcessType.GRAPHICS}
    return little - computed if computed else frozenset()


def _serves_its_person(key: ProcessKey, on: Where, people: Mapping[ProcessKey, Process]) -> bool:
    """A person's own MPS server, on GPUs where that person's other processes are: they stand for both."""
    server = people.get(key)
    if server is None or server.name not in MPS_SERVERS or server.uid is None:
        return False
    others = [
        uuids
        for other, uuids in on.items()
        if other != key and _is_client(people.get(other), server) and other.node == key.node
    ]
    return on[key] <= frozenset().union(*others)


def _is_client(process: Process | None, server: Process) -> bool:
    """Of the server's person; a uid in a container is nobody's but of what is in the same one."""
    if process is None or process.name in MPS_SERVERS:
        return False
    person, inside = person_behind(process), process.container or process.pod
    if person != person_behind(server):
        return False
    is_together = inside is not None and inside == (server.container or server.pod)
    return person is not None or (is_together and process.uid == server.uid)
