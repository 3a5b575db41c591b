"""Random histories: machines are cordoned, GPUs break, jobs come and go, and every round decides again.

Whatever happened before, a decision is made, its steps can be taken and the guard lets them pass, no GPU is
given away twice, and none is promised to two heads.
"""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import HoldForJob, Pause
from advisor.decide import decide
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode, Order
from advisor.planner.transition import replay
from advisor.planner.validate import checked
from advisor.planner.working_state import WorkingState
from advisor.policies.promised_starts import Promises
from advisor.state.model import (
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Profile,
    Project,
    Telemetry,
    Topology,
)
from tests.searches import examples

HOUR_MS = 3_600_000
START_MS = 1000 * HOUR_MS
GIB = 1024**3
AUTO = Limits(actions_per_hour=None, modes=dict.fromkeys(ActionClass, Mode.AUTO))
ORDERS = st.sampled_from([Order.ARRIVAL, *Order])


def comer(chance: Random, name: str) -> Job:
    """A job as it comes: often one that must be gone by some hour, sometimes elastic, a part, or firm."""
    least = chance.choice([1, 1, 2, 2, 3, 4])
    most = least + chance.choice([0, 0, 0, 2, 4])
    share = chance.choice([1.0, 1.0, 1.0, 0.5]) if most == 1 else 1.0
    steps = Profile(step_s={n: n**-0.9 for n in range(1, most + 1)}, steps_left=1e6, resize_s=1.0)
    return Job(
        id=name,
        project=chance.choice(["alpha", "beta", "gamma"]),
        user=chance.choice(["ann", "bob"]),
        priority=chance.choice([0, 0, 0, 1]),
        min_gpus=least,
        max_gpus=most,
        share=share,
        memory_bytes=chance.choice([None, 10 * GIB, 30 * GIB]),
        gpu_models=chance.choice([(), (), (), ("A",), ("B",)]),
        topology=chance.choice([Topology.ANY, Topology.ANY, *Topology]),
        limit_s=chance.choice([None, 3600.0, 2 * 3600.0, 5 * 3600.0, 12 * 3600.0]),
        preemptible=chance.choice([True, True, True, False]),
        checkpointable=chance.random() < 0.5,
        attached=False,
        profile=steps if most > least else None,
    )


def machines(chance: Random) -> ClusterState:
    nodes, each = chance.choice([(1, 4), (2, 2), (2, 4), (3, 2)])
    quotas = chance.choice([(0.0, 0.0, 0.0), (2.0, 0.0, 2.0), (4.0, 0.0, 0.0)])
    parent, mixed = chance.choice([None, "dept"]), chance.random() < 0.5
    return ClusterState(
        as_of_ms=START_MS,
        nodes={f"n{node}": Node(name=f"n{node}") for node in range(nodes)},
        gpus={
            f"n{node}/{at}": Gpu(
                uuid=f"n{node}/{at}",
                node=f"n{node}",
                model="B" if mixed and node == 0 else "A",
                memory_bytes=80 * GIB,
                telemetry=Telemetry.GOOD,
            )
            for node in range(nodes)
            for at in range(each)
        },
        projects={
            "dept": Project(name="dept", quota_gpus=chance.choice([None, 4.0])),
            **{
                name: Project(name=name, quota_gpus=quota, parent=parent if name != "gamma" else None)
                for name, quota in zip(("alpha", "beta", "gamma"), quotas, strict=True)
            },
        },
    )


def happens(chance: Random, state: ClusterState, number: int) -> ClusterState:
    """What the next round finds: time has gone by, some are done, some came, things broke or were mended."""
    now = state.as_of_ms + chance.choice([60_000, 20 * 60_000, HOUR_MS])
    jobs, placements = dict(state.jobs), dict(state.placements)
    for id in state.placements:
        job = jobs[id]
        late = job.limit_s is not None and now - (job.started_ms or 0) >= job.limit_s * 1000
        if late or chance.randint(0, 9) == 0:
            del jobs[id], placements[id]
    for at in range(chance.randint(0, 3)):
        job = comer(chance, f"j{number}-{at}")
        jobs[job.id] = replace(job, submitted_ms=now)
    jobs = {id: aged(chance, job, now) for id, job in jobs.items()}
    gpus, nodes = dict(state.gpus), dict(state.nodes)
    if chance.randint(0, 2) == 0:
        uuid = chance.choice(sorted(gpus))
        gpus[uuid] = replace(gpus[uuid], healthy=not gpus[uuid].healthy)
    if chance.randint(0, 2) == 0:
        name = chance.choice(sorted(nodes))
        nodes[name] = replace(nodes[name], schedulable=not nodes[name].schedulable)
    found = replace(state, as_of_ms=now, jobs=jobs, placements=placements, gpus=gpus, nodes=nodes, actions=())
    idle = [id for id in placements if jobs[id].checkpointable and chance.randint(0, 5) == 0]
    return checked(replace(replay(found, [Pause(job=id) for id in idle]), actions=()))


def aged(chance: Random, job: Job, now: int) -> Job:
    """What it reports of itself: at times that it has run long, and has just saved its work."""
    if job.phase is Phase.PENDING or chance.randint(0, 3):
        return job
    return replace(job, attained_gpu_s=5 * 3600.0, checkpoint_ms=now - 1000)


def kept(state: ClusterState, limits: Limits) -> dict[str, tuple[str, ...]]:
    """The promises that the next round would keep."""
    round = WorkingState(state, limits)
    Promises(round)
    return {id: held for id in state.reservations if (held := round.board.reserved_for(id))}


@given(st.integers(0, 2**32), ORDERS)
@settings(max_examples=examples(75, 150), deadline=None)
def test_a_decision_is_made_whatever_happened_before(seed: int, order: Order) -> None:
    chance, limits = Random(seed), replace(AUTO, order=order)
    state = machines(chance)
    for number in range(8):
        state = happens(chance, state, number)
        plan = decide(state, limits)
        assert approve(plan, state, limits).refused == ()
        new = [uuid for step in plan.steps if isinstance(step, HoldForJob) for uuid in step.gpus]
        assert len(new) == len(set(new)), "one plan promises a GPU twice"
        after = checked(replay(state, plan.steps))
        assert after.gpus == state.gpus and set(after.jobs) == set(state.jobs)
        held = [uuid for own in kept(after, limits).values() for uuid in own]
        assert len(held) == len(set(held)), "a GPU is promised to two heads"
        assert set(kept(after, limits)) == set(after.reservations), (
            "a promise that is none stays in the state"
        )
        state = after
