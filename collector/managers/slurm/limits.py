"""The limit that keeps a job waiting, with its number: what ``scontrol show assoc_mgr`` shows. Pure.

slurmctld prints what it enforces itself: ``gres/gpu=8(4)`` is a limit of 8 of which 4 are used, ``N(4)`` is
none (22.05.8). It says which kind of limit a job met (its reason), not which one; that is the first one of
the kind that what is used and what the job asks for would pass. Where none is shown that would, the number
isn't known, and that is said: with PrivateData some see their own associations alone, without a word of it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collector.managers.model import Limit, ManagedJob
from collector.managers.slurm.queue_text import ABSENT, TEXT_CHARS, length_s
from collector.procfs.job_root import bounded

QOS_COMMAND = ("scontrol", "show", "assoc_mgr", "flags=qos")
ASSOCIATIONS_COMMAND = ("scontrol", "--oneliner", "show", "assoc_mgr", "flags=assoc")
PARTITIONS_COMMAND = ("scontrol", "--oneliner", "show", "partition")
STARTS_WITH = "Current Association Manager state"
"""The first line of an answer, also of one that shows nothing else."""

WALL = "wall"
"""Time on the clock, of one job or of all together; in minutes, as Slurm keeps these limits."""

MOST_PARENTS = 100
"""Accounts in accounts; against a circle that no cluster has."""

_WHAT: Mapping[str, str] = {
    "GRES": "gres/",
    "Cpu": "cpu",
    "CPU": "cpu",
    "Mem": "mem",
    "Memory": "mem",
    "Node": "node",
    "Billing": "billing",
    "Wall": WALL,
}
"""Slurm's parts of a reason, and the trackable resources (slurm.conf(5), AccountingStorageTRES) they mean."""
_REASON = re.compile(
    rf"(?P<scope>QOS|Assoc)?(?P<kind>Grp|Max|Min)(?P<what>{'|'.join(_WHAT)}|Jobs)"
    r"(?:Duration)?(?P<minutes>Minutes|RunMinutes)?(?:Per(?P<per>User|Account|Job|Node))?(?:Limit)?"
)
_FIELD = re.compile(r"(?P<name>\w+)=(?P<value>\S*)")
_LIMITED = re.compile(r"(?P<what>[^=,]+)=(?P<most>\d{1,18})(?:\((?P<used>\d{1,18})\))?")
_COUNTED = re.compile(r"(?P<most>\d{1,18})(?:\((?P<used>\d{1,18})(?:\.\d+)?\))?")
"""Used time has parts of a minute: ``GrpWall=600(0.00)``."""
_NAMED = re.compile(r"(?P<name>.*)\((?P<id>\d+)\)")
_FIELDS: Mapping[tuple[str, str, str], str] = {
    ("Grp", "", ""): "GrpTRES",
    ("Grp", "Minutes", ""): "GrpTRESMins",
    ("Grp", "RunMinutes", ""): "GrpTRESRunMins",
    ("Max", "", "User"): "MaxTRESPU",
    ("Max", "", "Account"): "MaxTRESPA",
    ("Max", "", "Job"): "MaxTRESPJ",
    ("Max", "Minutes", "Job"): "MaxTRESMinsPJ",
    ("Max", "", "Node"): "MaxTRESPN",
    ("Min", "", ""): "MinTRESPJ",
}
_WALLS: Mapping[tuple[str, str], str] = {("Max", "Job"): "MaxWallPJ", ("Grp", ""): "GrpWall"}
"""Of a QOS as of an association."""
_JOBS: Mapping[tuple[str, str, str], str] = {
    ("QOS", "Grp", ""): "GrpJobs",
    ("QOS", "Max", "User"): "MaxJobsPU",
    ("QOS", "Max", "Account"): "MaxJobsPA",
    ("Assoc", "Grp", ""): "GrpJobs",
    ("Assoc", "Max", ""): "MaxJobs",
}


PARTITION = "PartitionTimeLimit"
"""The reason of a job whose own time limit is longer than its partition's (squeue(1))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Which limit a reason names: of which records (``QOS``, ``Assoc``, ``Partition``), in which field, of
    which resource (empty: of jobs)."""

    scope: str
    field: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A QOS or an association: its fields, and a QOS's of each account and of each user id."""

    fields: Mapping[str, str]
    accounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What Slurm showed. ``partitions``: the QOS that a partition has, where it has one; ``times``: how many
    minutes a job may have there, where that is bounded."""

    qos: Mapping[str, Record] = field(default_factory=dict)
    associations: tuple[Mapping[str, str], ...] = ()
    partitions: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)


def kind_of(reason: str) -> Kind | None:
    """The limit that a reason names; ``None``: none, or one whose number isn't looked for."""
    if reason == PARTITION:
        return Kind(scope="Partition", field="MaxTime", what=WALL)
    match = _REASON.fullmatch(reason)
    if match is None:
        return None
    kind, minutes, per = match["kind"], match["minutes"] or "", match["per"] or ""
    scope = match["scope"] or "QOS"  # MaxGRESPerAccount is a QOS's
    if match["what"] == "Jobs":
        counted = _JOBS.get((scope, kind, per))
        return None if counted is None or minutes else Kind(scope=scope, field=counted, what="")
    if match["what"] == "Wall":
        wall = _WALLS.get((kind, per))
        return None if wall is None or minutes else Kind(scope=scope, field=wall, what=WALL)
    named = _FIELDS.get((kind, minutes, per))
    return None if named is None else Kind(scope=scope, field=named, what=_WHAT[match["what"]])


def qos_of(text: str) -> dict[str, Record]:
    """The QOS of an answer by their names; none where it has none, or is no such answer."""
    found: dict[str, Record] = {}
    fields: dict[str, str] = {}
    group: dict[str, dict[str, str]] = {}
    groups: dict[str, dict[str, dict[str, str]]] = {}
    for line in text.splitlines():
        depth, words = len(line) - len(line.lstrip(" ")), line.strip()
        if depth == 0 and words.startswith("QOS="):
            fields, groups = {}, {"Account Limits": {}, "User Limits": {}}
            accounts, users = groups.values()
            found[_named(words.removeprefix("QOS="))] = Record(fields=fields, accounts=accounts, users=users)
        elif depth == 4 and words in groups:
            group = groups[words]
        elif depth == 6:
            fields = group[_id(words)] = {}
        elif depth:
            fields |= {match["name"]: match["value"] for match in _FIELD.finditer(words)}
    return found


def associations_of(text: str) -> tuple[Mapping[str, str], ...]:
    """The associations of an answer, a mapping of its fields each."""
    lines = (line for line in text.splitlines() if line.startswith("ClusterName="))
    return tuple({match["name"]: match["value"] for match in _FIELD.finditer(line)} for line in lines)


def partitions_of(text: str) -> dict[str, str]:
    """The QOS of each partition that has one."""
    rows = _partitions(text)
    return {row["PartitionName"]: row["QoS"] for row in rows if row.get("QoS", "N/A") not in ABSENT}


def times_of(text: str) -> dict[str, int]:
    """How many minutes a job may have in each partition that bounds it."""
    told = {row["PartitionName"]: length_s(row.get("MaxTime", "")) for row in _partitions(text)}
    return {name: seconds // 60 for name, seconds in told.items() if seconds is not None}


def limit_of(job: ManagedJob, shown: Shown, cluster: str) -> Limit | None:
    """The limit that a waiting job met, with its number or why that isn't known; ``None``: it names none."""
    kind = kind_of(job.reason)
    if kind is None:
        return None
    match kind.scope:
        case "Partition":
            found = [
                Limit(name=bounded(name, TEXT_CHARS), what=WALL, most=shown.times[name])
                for name in job.partition.split(",")
                if name in shown.times
            ]
        case "QOS":
            found = list(_of_qos(job, kind, shown))
        case _:
            found = list(_of_chain(job, kind, shown, cluster))
    limits = [each for each in found if not each.unseen]
    unseen = next((each for each in found if each.unseen), None)
    met = [each for each in limits if _is_met(each, job, kind)]
    if met:
        return met[0]
    if unseen is not None:
        return unseen
    told = "of the limits that Slurm shows, none would be passed; they changed, or the job asks for more"
    return Limit(name=found[0].name if found else "", unseen=told)


def _of_qos(job: ManagedJob, kind: Kind, shown: Shown) -> Iterator[Limit]:
    """A partition's QOS goes before the job's own (qos.html, "Partition QOS")."""
    partitions = [shown.partitions.get(name, "") for name in job.partition.split(",")]
    for name in dict.fromkeys((*filter(None, partitions), job.qos)):
        record = shown.qos.get(name)
        if record is None:
            yield Limit(name=name, unseen=f"Slurm shows no QOS {name or '(none)'} to this account")
            continue
        fields = record.fields
        if kind.field.endswith("PU"):
            fields = record.users.get(str(job.uid), {})
        elif kind.field.endswith("PA"):
            fields = record.accounts.get(job.holder.project or "", {})
        yield from _limits(name, "", kind, fields)


def _of_chain(job: ManagedJob, kind: Kind, shown: Shown, cluster: str) -> Iterator[Limit]:
    """The owner's association, the account's, and those of the accounts above, as far as they are shown."""
    rows = [row for row in shown.associations if row.get("ClusterName") == cluster]
    account, user = job.holder.project or "", job.holder.user or ""
    own = [
        row
        for row in rows
        if row.get("Account") == account
        and _named(row.get("UserName", "")) == user
        and row.get("Partition", "") in ("", *job.partition.split(","))
    ]
    for row in own:
        yield from _limits(account, user, kind, row)
    whole = {row.get("Account", ""): row for row in rows if not row.get("UserName")}
    for _ in range(MOST_PARENTS):
        found = whole.get(account)
        if found is None or not own:
            yield Limit(
                name=account,
                unseen=f"Slurm doesn't show the limits of account {account or '(none)'} to this account; "
                "give it AdminLevel=Operator",
            )
            return
        yield from _limits(account, "", kind, found)
        account = _named(found.get("ParentAccount", ""))
        if not account:
            return


def _limits(name: str, user: str, kind: Kind, fields: Mapping[str, str]) -> Iterator[Limit]:
    told = fields.get(kind.field, "")
    shown, user = bounded(name, TEXT_CHARS), bounded(user, TEXT_CHARS)
    if not kind.what or kind.what == WALL:
        counted, what = _COUNTED.fullmatch(told), kind.what or "jobs"
        if counted is not None:
            yield Limit(name=shown, user=user, what=what, most=int(counted["most"]), used=_used(counted))
        return
    for match in map(_LIMITED.fullmatch, told.split(",")):
        if match is not None and match["what"].startswith(kind.what):
            what = bounded(match["what"], TEXT_CHARS)
            yield Limit(name=shown, user=user, what=what, most=int(match["most"]), used=_used(match))


def _is_met(limit: Limit, job: ManagedJob, kind: Kind) -> bool:
    """Whether the job would pass it; of what it asks for in an unknown amount, whether nothing is left."""
    if limit.most is None:
        return False
    asked = _asked(limit.what, job)
    used = limit.used or 0
    if kind.field == "MinTRESPJ":
        return asked is not None and asked < limit.most
    if kind.field in ("GrpTRESMins", "GrpWall"):
        return used >= limit.most
    if kind.field in ("GrpTRESRunMins", "MaxTRESMinsPJ"):
        asked = None if asked is None or job.limit_s is None else -(-asked * job.limit_s // 60)
    if kind.field == "MaxTRESPN":
        asked = None if asked is None else -(-asked // job.ask.nodes)
    if asked is None:
        return limit.used is not None and used >= limit.most
    return asked > 0 and used + asked > limit.most


def _asked(what: str, job: ManagedJob) -> int | None:
    """How much of a resource a job asks for; ``None``: the queue doesn't say."""
    if what == "jobs":
        return 1
    if what == WALL:
        return None if job.limit_s is None else -(-job.limit_s // 60)
    if what == "node":
        return job.ask.nodes
    if what == "gres/shard":
        return job.ask.shards
    if what == "gres/gpu":
        return job.ask.gpus
    if what.startswith("gres/gpu:"):
        return job.ask.gpus if job.ask.gpu_type == what.removeprefix("gres/gpu:") else 0
    return None


def _partitions(text: str) -> Iterator[Mapping[str, str]]:
    for line in text.splitlines():
        row = {match["name"]: match["value"] for match in _FIELD.finditer(line)}
        if "PartitionName" in row:
            yield row


def _used(match: re.Match[str]) -> int | None:
    return None if match["used"] is None else int(match["used"])


def _named(text: str) -> str:
    match = _NAMED.fullmatch(text)
    return text if match is None else match["name"]


def _id(text: str) -> str:
    """A user's number, however it is written (``1001``, ``ann(1001)``); an account's name as it is."""
    match = _NAMED.fullmatch(text)
    return text if match is None else match["id"]
