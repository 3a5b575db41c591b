"""The twelve words that a reader of screens, verbs and pages needs; docs/words.md has them. Pure."""

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "allocated": "given to somebody: by Slurm, Kubernetes, Ray, Fallow, or by having a process there",
    "used": "utilization times measured time: two hours at 30% are 0.6 GPU-hours used",
    "idle": "allocated, and nothing computes on it: its holder's process does nothing, or there is none",
    "underused": "it computes, and fills under a quarter of the GPU while it does; told, never called waste",
    "unknown": "not measured, or measured by counters that contradict each other: never idle, never 0",
    "finding": "what is wrong on a GPU or with a job, with the numbers that show it and what to do",
    "advice": "what would give GPU-hours back, how many, and what it would cost whom",
    "job": "what somebody started, on any number of GPUs: the unit in which people are told anything",
    "project": "who shares a quota: a team, an account, a queue",
    "quota": "the GPUs that a project gets back whenever it asks",
    "share": "a part of a GPU that was given: a MIG instance, or a fraction of memory and time",
    "elastic": "runs on any number of GPUs between two numbers, and learns the same on all of them",
}
