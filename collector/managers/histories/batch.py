"""Accounting files of PBS and LSF, and the Standard Workload Format, as past jobs. Pure.

Sources: PBS Professional's Reference Guide (accounting log: "E" records), IBM's page of lsb.acct
(JOB_FINISH of LSF 10.1), and D. Feitelson's definition of the Standard Workload Format, version 2.2.
"""

import re
from collections.abc import Iterable, Iterator

from collector.managers.histories.model import NEVER_RAN, LeftOut, Record, Unreadable
from collector.managers.histories.values import gpus_in, job, moment_s, nodes_in, word

PBS_RECORD = re.compile(
    r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;(?P<kind>[A-Za-z]+);(?P<key>[^;]*);(?P<said>.*)", re.S
)
_PBS_FIELD = re.compile(r'(?:^|\s)(?P<name>[A-Za-z_][\w.]*)=(?P<value>"[^"]*"|\S*)')
_PBS_CHUNK = re.compile(r"(?:^|\+)\(?(?:(?P<count>\d{1,9}):)?(?P<rest>[^+]*)")
_PBS_HOST = re.compile(r"(?:^|\+)([^/+:]+)")
"""exec_host is ``n1/0*8+n2/0*8``: a host, its index, and how many CPUs there."""

_PBS_GPUS = re.compile(r"\bngpus=(\d{1,9})\b")

_LSF_WORD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_LSF_GPUS = re.compile(r"\bngpus_physical=(\d{1,9}(?:\.0+)?)\b")
LSF_FIXED = 17
"""Fields of JOB_FINISH up to fromHost; behind it are paths, and then the first number is numAskedHosts."""

SWF_FIELDS = 18


def pbs_records(lines: Iterable[str]) -> Iterator[tuple[int, Record]]:
    """Each end of a job (records of kind E) of a PBS accounting log, with its line."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        match = PBS_RECORD.fullmatch(text)
        if match is None:
            yield number, Unreadable("not a record of PBS: DATE TIME;KIND;JOB;...")
        elif match["kind"] != "E":
            yield number, LeftOut("records that are no end of a job (queued, started, deleted and so on)")
        else:
            fields = {each["name"]: each["value"].strip('"') for each in _PBS_FIELD.finditer(match["said"])}
            try:
                yield number, _pbs(match["key"], fields)
            except ValueError as error:
                yield number, Unreadable(str(error))


def _pbs(key: str, fields: dict[str, str]) -> Record:
    return job(
        key=word(key),
        submitted_s=moment_s(fields.get("ctime", ""), "ctime"),
        started_s=moment_s(fields.get("start", ""), "start"),
        ended_s=moment_s(fields.get("end", ""), "end"),
        gpus=_pbs_gpus(fields),
        names={
            "user": word(fields.get("user")),
            "project": _pbs_project(fields),
            "name": word(fields.get("jobname")),
        },
        nodes=nodes_in(",".join(_PBS_HOST.findall(fields.get("exec_host", "")))),
    )


def _pbs_project(fields: dict[str, str]) -> str | None:
    """The project, the account, else the group; PBS gives who names no project one of its own."""
    project = word(fields.get("project"))
    named = None if project == "_pbs_project_default" else project
    return named or word(fields.get("account")) or word(fields.get("group"))


def _pbs_gpus(fields: dict[str, str]) -> float:
    """``Resource_List.ngpus`` is of the whole job; else the chunks of ``select`` or of what it got."""
    if "Resource_List.ngpus" in fields:
        return gpus_in(fields["Resource_List.ngpus"], "Resource_List.ngpus")
    total = 0
    for name in ("Resource_List.select", "exec_vnode"):
        for chunk in _PBS_CHUNK.finditer(fields.get(name, "")):
            total += int(chunk["count"] or 1) * sum(map(int, _PBS_GPUS.findall(chunk["rest"])))
        if total:
            break
    return gpus_in(str(total), "ngpus")


def lsf_records(lines: Iterable[str]) -> Iterator[tuple[int, Record]]:
    """Each JOB_FINISH of an lsb.acct file, with its line."""
    for number, line in enumerate(lines, 1):
        words = [(each[1], each[2]) for each in _LSF_WORD.finditer(line)]
        if not words:
            continue
        if words[0][0] != "JOB_FINISH":
            yield number, LeftOut("records that are no end of a job")
            continue
        try:
            yield number, _lsf(words)
        except (ValueError, IndexError) as error:
            yield number, Unreadable(f"not as LSF 10.1 writes JOB_FINISH: {error}")


def _lsf(words: list[tuple[str | None, str | None]]) -> Record:
    """``words``: each is quoted text, or a bare number."""
    number, user, queue = words[3][1], words[11][0], words[12][0]
    at = next(place for place in range(LSF_FIXED, len(words)) if words[place][1] is not None)
    requested_gpus = int(words[at][1] or "")
    at += 1 + requested_gpus
    hosts = [quoted for quoted, _ in words[at + 1 : at + 1 + int(words[at][1] or "")]]
    ended_s, started_s = moment_s(words[2][1] or "", "event time"), moment_s(words[10][1] or "0", "startTime")
    if not started_s:
        return NEVER_RAN
    gpus = max((float(each) for quoted, _ in words for each in _LSF_GPUS.findall(quoted or "")), default=None)
    if gpus is None:
        return LeftOut("tell no GPUs: LSF writes them as ngpus_physical in a job's resource requirement")
    return job(
        key=word(number),
        submitted_s=moment_s(words[7][1] or "", "submitTime"),
        started_s=started_s,
        ended_s=ended_s,
        gpus=gpus_in(str(gpus * max(len(set(hosts)), 1)), "ngpus_physical"),  # LSF counts them a host
        names={"user": word(user), "project": word(queue)},
        nodes=nodes_in(",".join(host or "" for host in hosts)),
    )


def swf_records(lines: Iterable[str]) -> Iterator[tuple[int, Record]]:
    """Each job of a file in the Standard Workload Format; a processor there stands for a GPU."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        cells = text.split()
        if len(cells) != SWF_FIELDS:
            yield (
                number,
                Unreadable(f"{len(cells)} fields where the Standard Workload Format has {SWF_FIELDS}"),
            )
            continue
        try:
            yield number, _swf(cells)
        except ValueError as error:
            yield number, Unreadable(str(error))


def _swf(cells: list[str]) -> Record:
    """-1 is not known. A wait that isn't known is taken as none: the length of the run is what counts."""
    submitted_s, wait_s, run_s = (float(cells[index]) for index in (1, 2, 3))
    allocated, requested = float(cells[4]), float(cells[7])
    if run_s <= 0:
        return NEVER_RAN
    submitted = moment_s(cells[1], "submit time")
    started_s = submitted_s + max(wait_s, 0.0)
    return job(
        key=word(cells[0]),
        submitted_s=submitted,
        started_s=started_s,
        ended_s=started_s + run_s,
        gpus=gpus_in(str(max(allocated if allocated > 0 else requested, 0.0)), "processors"),
        names={"user": _swf_name("user", cells[11]), "project": _swf_name("group", cells[12])},
    )


def _swf_name(kind: str, number: str) -> str | None:
    return None if number == "-1" else word(f"{kind} {number}")
