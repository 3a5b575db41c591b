"""The kinds of finding in words: a title, what is seen, what to do. Pure; the one list for every output.

A new kind is given its words here; tests/docs/test_docs_kinds.py names each place that would lack them.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWords:
    """One kind. ``like`` is the state of a GPU whose colour it bears, ``style`` its colour on a terminal.

    ``beyond`` says why no rule of ``packaging/prometheus`` stands for it; empty where one does.
    """

    title: str
    says: str
    remedy: str
    like: str
    style: str
    beyond: str = ""


KINDS: Mapping[str, KindWords] = {
    "held-idle": KindWords(
        title="Held, idle",
        says="somebody holds the GPU, and nothing has run on it for the whole window",
        remedy="end the job, or keep it with `fallow keep JOB`; a notebook's kernel can be shut down",
        like="held-idle",
        style="red",
    ),
    "allocated-empty": KindWords(
        title="Held, empty",
        says="somebody was given the GPU, and no process of theirs is on it",
        remedy="give the allocation back, or start what it was asked for",
        like="allocated-empty",
        style="magenta",
    ),
    "not-started": KindWords(
        title="Not started yet",
        says="a job holds the GPU and has not computed on it since it was given; nobody is accused yet",
        remedy="look at its log: it may be downloading, or wait for data or for another machine",
        like="free",
        style="bold",
        beyond="it may be preparing",
    ),
    "sleeping-batch": KindWords(
        title="Never computed",
        says="a batch job has held the GPU for six hours and has never computed on it",
        remedy="look at its log and end it: what it waits for will hardly come",
        like="held-idle",
        style="red",
    ),
    "crash-loop": KindWords(
        title="Crash loop",
        says="a job's processes die and are started again and again, and none computes for long",
        remedy="read why the first one died; fewer restarts (`--restarts`) would give the GPU back",
        like="held-idle",
        style="red",
    ),
    "rarely-used": KindWords(
        title="Rarely used",
        says="the GPU is used again and again, for at most a tenth of a day",
        remedy="take a share of a GPU, scale to zero between requests, or hold it at fixed hours only",
        like="low-saturation",
        style="yellow",
    ),
    "low-saturation": KindWords(
        title="Low saturation",
        says="the job works, and fills under a quarter of the GPU while it does",
        remedy="larger batches, more workers that load data, a smaller GPU, or a share of one",
        like="low-saturation",
        style="yellow",
    ),
    "memory-hog": KindWords(
        title="Memory hog",
        says="the job keeps most of the memory and hardly touches it",
        remedy="let the framework take memory as it needs it (`fallow explain JOB` names the setting)",
        like="moderate",
        style="yellow",
    ),
    "reserved-by-design": KindWords(
        title="Reserved by design",
        says="a server keeps most of the memory for a cache, as it was told to, and serves little",
        remedy="the server's own limit (vLLM `--gpu-memory-utilization`), a share of a GPU, scaling to zero",
        like="moderate",
        style="yellow",
    ),
    "suspect-counters": KindWords(
        title="Suspect counters",
        says="the GPU says that it is busy, and has no process or draws no power",
        remedy="reset the GPU when it is free (`nvidia-smi --gpu-reset`); until then nothing is judged on it",
        like="suspect",
        style="bold magenta",
    ),
    "zombie-memory": KindWords(
        title="Zombie memory",
        says="memory is taken on a GPU that nobody holds and no living process uses",
        remedy="look for processes in other namespaces, else reset the GPU when it is free",
        like="suspect",
        style="magenta",
    ),
    "falling-gpu": KindWords(
        title="Falling GPU",
        says="the GPU does not answer its driver any more",
        remedy="drain the node, read its kernel log (XID), power-cycle it; replace the GPU if it recurs",
        like="unknown",
        style="bold red",
    ),
    "intruder": KindWords(
        title="Intruder",
        says="a process is on the GPU that belongs to none of the jobs that were given it",
        remedy="talk to its owner; `fallow findings --intruders` has the process and its command",
        like="held-idle",
        style="bold red",
    ),
    "unproven-claim": KindWords(
        title="Unproven claim",
        says="a launcher says that its job runs on a GPU, and cannot show that Fallow gave it",
        remedy="talk to its owner; after a restored backup, start that job again",
        like="held-idle",
        style="bold red",
    ),
    "uses-part": KindWords(
        title="Uses a part",
        says="a job works on some of its GPUs and does nothing on the others",
        remedy="ask for as many GPUs as it uses, or have it use them all (`torchrun --nproc-per-node`)",
        like="allocated-empty",
        style="magenta",
    ),
    "straggler": KindWords(
        title="Straggler",
        says="a job's GPUs are used so unevenly that most of them may wait for a few",
        remedy="even out the data and the loading for each worker, and look at the slow GPU's clocks",
        like="low-saturation",
        style="yellow",
    ),
}


def title_of_kind(kind: str) -> str:
    """What a kind is called; one that only a newer Fallow knows keeps its own name."""
    return KINDS[kind].title if kind in KINDS else kind
