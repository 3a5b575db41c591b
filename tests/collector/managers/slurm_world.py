"""A Slurm that answers as its programs do: what squeue, sinfo, scontrol and sacctmgr print of jobs and nodes.

The formats are those of a real 22.05.8, of which ``recorded`` holds answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from collector.inventory.slurm_programs import NoAnswer
from collector.managers.slurm import node_text, queue_text

SUBMITTED_S = 1_795_660_771
RUNNING = frozenset({"RUNNING", "SUSPENDED", "COMPLETING"})


@dataclass(frozen=True, kw_only=True)
class Job:
    """``gres`` is what scontrol says of each of ``nodes``."""

    id: int
    user: str = "ann"
    uid: int = 1000
    account: str = "vision"
    name: str = "train"
    state: str = "RUNNING"
    reason: str = "None"
    nodes: tuple[str, ...] = ("gpu1",)
    gres: tuple[str, ...] = ("gpu:a100:2(IDX:0-1)",)
    asked: str = "gres:gpu:2"
    submitted_s: int = SUBMITTED_S
    restarts: int = 0
    batch: bool = True
    comment: str = "(null)"
    held: bool = False
    array: tuple[int, int] | None = None
    """The array's number and the task's."""
    requeue: bool = True
    het: str = "N/A"
    qos: str = "normal"

    @property
    def runs(self) -> bool:
        return self.state in RUNNING

    def row(self) -> dict[str, str]:
        return dict.fromkeys(queue_text.FIELDS, "N/A") | {
            "JobID": str(self.id),
            "JobArrayID": str(self.id),
            "ArrayJobID": str(self.id if self.array is None else self.array[0]),
            "ArrayTaskID": "N/A" if self.array is None else str(self.array[1]),
            "State": self.state,
            "Reason": self.reason,
            "UserName": self.user,
            "UserID": str(self.uid),
            "Account": self.account,
            "QOS": self.qos,
            "Partition": "main",
            "tres-per-node": self.asked,
            "NumNodes": str(len(self.nodes)),
            "NodeList": ",".join(self.nodes) if self.runs else "",
            "PriorityLong": "0" if self.held else "4294901760",
            "StartTime": str(self.submitted_s + 1),
            "SubmitTime": str(self.submitted_s),
            "TimeLimit": "1:00:00",
            "RestartCnt": str(self.restarts),
            "BatchFlag": "1" if self.batch else "0",
            "Comment": self.comment,
            "Requeue": "1" if self.requeue else "0",
            "HetJobID": self.het,
            "Name": self.name,
        }

    def detail(self) -> str:
        parts = "".join(
            f"   Nodes={node} CPU_IDs=0 Mem=100 GRES={gres}"
            for node, gres in zip(self.nodes, self.gres, strict=False)
        )
        return (
            f"JobId={self.id} JobName={self.name} UserId={self.user}({self.uid}) JobState={self.state} "
            f"CoreSpec=* JOB_GRES=gpu:2{parts if self.runs else ''} MinCPUsNode=1 Comment=(null) \n"
        )


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str = "gpu1"
    state: str = "mixed"
    gres: str = "gpu:a100:4"
    used: str = "gpu:a100:2(IDX:0-1)"
    user: str = "Unknown"
    reason: str = "none"

    def row(self) -> dict[str, str]:
        said = (self.name, self.state, self.gres, self.used, "main*", self.user, self.reason)
        return dict(zip(node_text.FIELDS, said, strict=True))


@dataclass(kw_only=True)
class World:
    """``failing``: what each program says instead of an answer. ``level``: this account's AdminLevel."""

    jobs: Sequence[Job] = (Job(id=812),)
    nodes: Sequence[Node] = (Node(),)
    private: str = "none"
    level: str = ""
    reservations: Sequence[str] = ()
    qos: Sequence[str] = ()
    """Lines about QOS of what `scontrol show assoc_mgr` prints."""
    began_s: int = SUBMITTED_S - 86_400
    next_number: int = 900
    """Of the controller: when it was started, and what the next job will be called."""
    failing: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, command: Sequence[str], timeout_s: float) -> str:
        """What the program prints; in place of ``collector.inventory.slurm_programs.answer``."""
        assert timeout_s > 0
        self.calls.append(tuple(command))
        if command[0] in self.failing:
            raise NoAnswer(self.failing[command[0]])
        match list(command):
            case ["squeue", *_]:
                return self._queue(command)
            case ["sinfo", *_]:
                return _printed([node.row() for node in self.nodes], command[-1])
            case ["scontrol", "show", "config"]:
                return (
                    f"ClusterName = lab\nPrivateData = {self.private}\nSlurmUser = slurm(64030)\n"
                    f"BOOT_TIME = {self.began_s}\nNEXT_JOB_ID = {self.next_number}\n"
                )
            case ["scontrol", *_, "reservation"]:
                return "".join(f"{line}\n" for line in self.reservations or ["No reservations in the system"])
            case ["scontrol", *_, "partition"] | ["scontrol", "show", "assoc_mgr", *_]:
                return self._limits(command)
            case ["scontrol", *_, "job"]:
                return "".join(job.detail() for job in self.jobs)
            case ["scontrol", "requeuehold" | "release", _]:
                return ""
            case ["scontrol", *_, number]:
                found = [job for job in self.jobs if str(job.id) == number]
                if not found:
                    raise NoAnswer("scontrol ended with 1: slurm_load_jobs error: Invalid job id specified")
                return found[0].detail()
            case ["sacctmgr", *_]:
                return f"{self.level}\n"
            case _:
                raise AssertionError(command)

    def _limits(self, command: Sequence[str]) -> str:
        if command[-1] == "partition":
            return "PartitionName=main QoS=N/A Nodes=gpu[1-2] State=UP\n"
        lines = ["Current Association Manager state", "", "QOS Records", "", *self.qos]
        return "".join(f"{line}\n" for line in lines)

    def _queue(self, command: Sequence[str]) -> str:
        wanted = [each.removeprefix("--jobs=") for each in command if each.startswith("--jobs=")]
        named = [job for job in self.jobs if not wanted or str(job.id) in wanted]
        if wanted and not named:
            raise NoAnswer("squeue ended with 1: slurm_load_jobs error: Invalid job id specified")
        return _printed([job.row() for job in named], command[-1])

    def asking(self) -> Callable[[Sequence[str]], str]:
        """The same without a time limit."""
        return lambda command: self.run(command, 1.0)

    def asked(self, program: str) -> int:
        """How often it was called."""
        return sum(command[0] == program for command in self.calls)


def _printed(rows: Sequence[dict[str, str]], option: str) -> str:
    fields = [each.partition(":") for each in option.removeprefix("--Format=").split(",")]
    return "".join("".join(f"{row[name]}{mark}" for name, _, mark in fields) + "\n" for row in rows)
