"""Jobs, the queue, plans, the journal and the kill switch as rows: what the API's routes answer. Pure.

Of a job it also says whether it can ever fit, and why it stands where it stands.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from advisor.jobs.gpu_sharing import Terms, about_defaults
from advisor.jobs.lifecycle import in_flight
from advisor.jobs.model import Elasticity, JobRecord, JobState, Submission
from advisor.jobs.repository import KeptLease
from advisor.journal.kill_switch import Setting
from advisor.journal.proposals import PendingPlan, Proposed, Standing
from advisor.journal.records import ActionRecord
from advisor.planner.limits import Limits, Mode
from advisor.planner.targets import where
from advisor.serialize import to_tree
from advisor.state.model import ActionClass, Gpu
from advisor.tags import verb_of
from collector.procfs.job_root import COMMAND_CHARS, masked
from service.control.interface import Caller, Which
from service.control.wait_reasons import Wait
from service.schemas import control, records
from service.schemas.answer import Row, to_row
from service.usecases.advice_rows import refusal

MASKS_KEPT = 2_048
"""Masking a long command takes a millisecond, and lists are asked for again every few seconds."""


def unfit(submission: Submission, inner_projects: frozenset[str] = frozenset()) -> str | None:
    """Why a submission can never be a job, and what would be right; ``None`` when it can. Pure."""
    if not submission.command:
        return "a job needs a command; write it after `--`"
    if not submission.project:
        return "a job needs a project; name one with --project"
    if submission.project in inner_projects:
        return (
            f"{submission.project} has projects below it, and jobs belong to those; name one with --project"
        )
    if not 1 <= submission.min_gpus <= submission.max_gpus:
        return f"{submission.min_gpus} to {submission.max_gpus} GPUs: at least 1, the smaller number first"
    if not 0 < submission.share <= 1:
        return f"a share of {submission.share:g} of a GPU: above 0 and at most 1"
    if submission.memory_bytes is not None and submission.memory_bytes <= 0:
        return f"{submission.memory_bytes} bytes of memory: leave it out when it is not known"
    if submission.limit_s is not None and submission.limit_s <= 0:
        return f"a time limit of {submission.limit_s:g} s: leave it out when there is none"
    if submission.background and submission.after:
        return "a background job is given no GPU, and starts after nobody: leave --after or --background out"
    if submission.grace_s < 0 or submission.restarts < 0:
        return "a grace and a number of restarts are 0 or more"
    if submission.mobility is Elasticity.CHECKPOINTS and not submission.checkpoint_signal:
        return "a job that checkpoints says on which signal; name it with --checkpoint-signal"
    return None


def entry_row(entry: JobRecord, caller: Caller, *, listed: bool = False) -> Row:
    """An entry for the API: whole for its owner and for operators, for others without what is not theirs.

    A command line can be read by everybody on the machine while its process runs, but what is kept outlives
    it: others see it with its secrets hidden, as a measured process's, and neither the folder nor the nonce.
    In a list every command is cut. What private mode hides is decided in ``service.api.privacy``.
    """
    submission = entry.submission
    if not caller.may_act_for(submission.user, submission.uid):
        command = _masked(_cut(submission.command, 2 * COMMAND_CHARS) if listed else submission.command)
        submission = replace(submission, command=command, folder="", nonce="")
    if listed:
        submission = replace(submission, command=_cut(submission.command, COMMAND_CHARS))
    named = {"job": entry.id, "name": submission.name, "user": submission.user, "project": submission.project}
    return {**named, **to_tree(replace(without_proof(entry), submission=submission))}


def without_proof(entry: JobRecord) -> JobRecord:
    """The entry as everybody may see it: what its launcher can show is its launcher's alone. Pure."""
    directive = entry.directive
    return entry if directive is None else replace(entry, directive=replace(directive, proof=""))


def fits(entry: JobRecord, which: Which) -> bool:
    """Whether an entry is one of those that are meant. Pure."""
    return (
        which.state in (None, entry.state)
        and which.ended in (None, entry.state is JobState.ENDED)
        and which.user in (None, entry.submission.user)
        and which.project in (None, entry.submission.project)
    )


def explained(entry: JobRecord, wait: Wait | None, terms: Terms | None = None) -> tuple[str, ...]:
    """Sentences for people on why the job stands where it stands, and on which terms it holds GPUs. Pure.

    ``terms`` are those that it would get now: what its lease says goes before.
    """
    lines = [f"It is {entry.state.value}" + (f": {entry.message}." if entry.message else ".")]
    if wait is not None:
        lines.append(f"It is number {wait.place} of {wait.of} in the queue and waits for: {wait.waits_for}.")
    if in_flight(entry):
        lines.append(f"Its launcher was told to {verb_of(entry.directive)} and has not answered.")
    if entry.next_launch:
        named = ", ".join(f"{name}={value}" for name, value in entry.next_launch)
        lines.append(f"It is launched with {named} next time.")
    settings = getattr(entry.directive, "settings", ())
    lines += _on_terms(entry, terms)
    if settings:
        named = ", ".join(f"{name}={value}" for name, value in settings)
        lines.append(f"The settings of its lease: {named}.")
    return tuple(lines)


def _on_terms(entry: JobRecord, terms: Terms | None) -> tuple[str, ...]:
    if terms is None or not entry.gpus:
        return (about_defaults(entry.submission),)
    why, *rest = terms.sentences
    if terms.sharing is not entry.sharing:
        why = f"Its lease says {entry.sharing.value}, as things were when it was granted."
    return (why, *rest)


def queue_row(entry: JobRecord, wait: Wait) -> Row:
    """A row of the queue; ``gpus`` is the least that it starts on."""
    submission = entry.submission
    return to_row(
        control.Waiting(
            job=entry.id,
            name=submission.name,
            user=submission.user,
            project=submission.project,
            gpus=submission.min_gpus * submission.share,
            max_gpus=submission.max_gpus * submission.share,
            place=wait.place,
            waits_for=wait.waits_for,
            since_ms=entry.submitted_ms,
            promised_ms=entry.promised_ms,
        )
    )


def lease_row(lease: KeptLease, entry: JobRecord | None, gpu: Gpu | None) -> Row:
    """A lease as the store keeps it, with whose it is and where its GPU is, as far as that is known."""
    submission = None if entry is None else entry.submission
    return to_row(
        control.Lease(
            job=lease["job"],
            gpu=lease["gpu"],
            share=lease["share"],
            since_ms=lease["since_ms"],
            node=None if gpu is None else gpu.node,
            part_of_device=None if gpu is None else gpu.part_of_device,
            user=None if submission is None else submission.user,
            project=None if submission is None else submission.project,
            sharing=None if entry is None else entry.sharing.value,
        )
    )


_masked = lru_cache(MASKS_KEPT)(masked)


def _cut(command: tuple[str, ...], chars: int) -> tuple[str, ...]:
    """The command with no more than so many characters, an ellipsis where it goes on."""
    if sum(map(len, command)) <= chars:
        return command
    words: list[str] = []
    for argument in command:
        if chars <= 0:
            return (*words, "\u2026")
        words.append(argument if len(argument) <= chars else f"{argument[:chars]}\u2026")
        chars -= len(argument)
    return tuple(words)


def plan_row(pending: PendingPlan) -> Row:
    """A kept plan and its steps, numbered from 1."""
    return to_row(
        control.Plan(
            plan=pending.number,
            as_of_ms=pending.as_of_ms,
            state=pending.standing.value,
            steps=tuple(_step(at, each) for at, each in enumerate(pending.proposal.steps, start=1)),
            refused=tuple(refusal(each) for each in pending.proposal.refused),
            settled_ms=pending.settled_ms,
            settled_by=pending.settled_by,
            because=pending.because,
            snoozed_ms=pending.snoozed_ms,
            apply=f"fallow apply {pending.number} --yes" if pending.standing is Standing.WAITING else None,
        )
    )


def step_row(number: int, each: Proposed) -> Row:
    """A step of a plan; ``expected_gain`` is null where no policy reckoned one."""
    return to_row(_step(number, each))


def _step(number: int, each: Proposed) -> control.PlanStep:
    gain = None
    if each.gain_gpu_hours is not None:
        gain = control.Gain(gpu_hours=each.gain_gpu_hours, horizon_s=each.horizon_s)
    return control.PlanStep(
        n=number,
        verb=verb_of(each.step),
        job=each.step.job,
        gpus=tuple(getattr(each.step, "gpus", ())),
        sentence=sentence(each),
        reason=each.step.reason,
        mode=each.mode.value,
        user=each.user,
        project=each.project,
        expected_gain=gain,
        why=each.why,
        risk=each.risk,
        evidence={fact.name: fact.value for fact in each.evidence},
    )


def sentence(each: Proposed) -> str:
    """What a step does, in a line: verb, job, whose, on what."""
    step = each.step
    whose = f" of {each.user}" if each.user else ""
    settings = getattr(step, "settings", ())
    what = " with " + " ".join(f"{name}={value}" for name, value in settings) if settings else ""
    askers = [getattr(step, "for_job", None), *(job for job, _ in getattr(step, "also_for", ()))]
    askers_text = " and ".join(each for each in askers if each)
    return f"{verb_of(step).replace('-', ' ')} {step.job}{whose}{where(step)}{what}" + (
        f" for {askers_text}" if askers_text else ""
    )


def action_row(deed: ActionRecord) -> Row:
    """A row of the journal; ``outcome`` is null while it is being done, ``user`` where none was known."""
    return to_row(
        records.Action(
            action=deed.number,
            at_ms=deed.begun.at_ms,
            job=deed.job,
            verb=deed.verb,
            actor=deed.actor,
            user=None if deed.stood is None else deed.stood.user,
            plan=deed.plan,
            reason=deed.reason,
            outcome=None if deed.result is None else deed.result.value,
            found=deed.found,
            settled_ms=deed.settled_ms,
            undo=deed.undo,
            no_undo=deed.no_undo,
            undone_by=deed.undone_by,
        )
    )


def acting_row(setting: Setting, limits: Limits, cycle_s: float | None = None) -> Row:
    """The switch, how far each class of action goes, and how long the newest cycle took."""
    return to_row(
        control.Switch(
            acting=setting.acting,
            by=setting.by or None,
            at_ms=setting.at_ms,
            because=setting.because,
            modes={action.value: limits.mode(action).value for action in ActionClass},
            project_modes={name: _modes(modes) for name, modes in sorted(limits.project_modes.items())},
            cycle_s=cycle_s,
        )
    )


def _modes(modes: Mapping[ActionClass, Mode]) -> dict[str, str]:
    return {action.value: mode.value for action, mode in modes.items()}
