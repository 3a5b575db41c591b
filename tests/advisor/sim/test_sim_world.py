"""The world: what steps cost, what is conserved, and that the same input gives the same run to the byte."""

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.actions import Cancel, Pause, Requeue, Resize, Resume, Start
from advisor.outcomes import Done, Stale, Unsupported
from advisor.planner.limits import Order
from advisor.sim.cluster import BadCluster, Cluster, parse_nodes, shared_out, sized_for
from advisor.sim.compare import LIMITS, POLICIES, Setting, UnknownPolicy, compare
from advisor.sim.run import SimulationError, simulate
from advisor.sim.score import jct_s
from advisor.sim.workload import SteadySteps, TraceJob, Work, Workload
from advisor.sim.world import START_MS, Physics, World
from advisor.state.model import Phase, Topology
from collector.model import GpuUuid, JobId


class Perfect:
    """Steps that halve with twice the GPUs."""

    def step_s(self, counts: tuple[int, ...]) -> float:
        return 1.0 / sum(counts)


def job(name: str, at_s: float = 0.0, gpus: int = 1, steps: float = 100.0, **more: object) -> TraceJob:
    made = {"project": "lab", "work": Work(steps=steps), **more}
    return TraceJob(name=name, submitted_s=at_s, gpus=gpus, **made)  # type: ignore[arg-type]


def world(*jobs: TraceJob, nodes: int = 1, each: int = 4, **physics: object) -> World:
    made = World(
        Cluster(nodes=nodes, gpus_per_node=each),
        Workload(origin="test", jobs=tuple(jobs)),
        Physics(**physics),  # type: ignore[arg-type]
    )
    made.advance(START_MS)
    return made


def gpus(*numbers: int) -> tuple[GpuUuid, ...]:
    return tuple(GpuUuid(f"node-{number // 4:05d}-{number % 4:02d}") for number in numbers)


def end_s(made: World, name: str) -> float | None:
    life = made.lives[JobId(name)]
    return None if life.end_ms is None else (life.end_ms - START_MS) / 1000


def test_a_job_ends_when_its_steps_are_done_and_a_start_costs_what_it_costs() -> None:
    made = world(job("a"), start_s=lambda _: 7.0)
    made.do(Start(job=JobId("a"), gpus=gpus(0)))
    made.sleep(106.9)
    assert end_s(made, "a") is None
    made.sleep(0.1)
    assert end_s(made, "a") == 107.0
    assert made.finished
    assert made.lives[JobId("a")].stalled_gpu_s == pytest.approx(7.0)


def test_a_resize_stalls_and_then_speeds_up() -> None:
    elastic = job("a", work=Work(steps=100, times=Perfect()), min_gpus=1, max_gpus=4)
    made = world(elastic, resize_s=lambda _: 10.0)
    made.do(Start(job=JobId("a"), gpus=gpus(0)))
    made.sleep(40)
    made.do(Resize(job=JobId("a"), gpus=gpus(0, 1, 2, 3)))
    made.sleep(1000)
    assert end_s(made, "a") == pytest.approx(40 + 10 + 60 / 4)


def test_a_paused_job_loses_nothing_and_a_requeued_one_its_work_since_the_checkpoint() -> None:
    made = world(job("a"), job("b"), checkpoint_s=30)
    made.do_all([Start(job=JobId("a"), gpus=gpus(0)), Start(job=JobId("b"), gpus=gpus(1))])
    made.sleep(40)
    made.do_all([Pause(job=JobId("a")), Requeue(job=JobId("b"))])
    made.sleep(10)
    made.do_all([Resume(job=JobId("a"), gpus=gpus(2)), Start(job=JobId("b"), gpus=gpus(3))])
    made.sleep(1000)
    assert end_s(made, "a") == 50 + 60
    assert end_s(made, "b") == 50 + 70
    assert made.lives[JobId("b")].lost_gpu_s == pytest.approx(10)


def test_a_job_that_saves_when_asked_loses_nothing_by_a_requeue() -> None:
    made = world(job("a"), saves_on_request=True)
    made.do(Start(job=JobId("a"), gpus=gpus(0)))
    made.sleep(40)
    made.do(Requeue(job=JobId("a")))
    made.do(Start(job=JobId("a"), gpus=gpus(0)))
    made.sleep(1000)
    assert end_s(made, "a") == 100


def test_impossible_steps_change_nothing_and_say_why() -> None:
    made = world(job("a", gpus=2), job("b"))
    assert isinstance(made.do(Start(job=JobId("a"), gpus=gpus(0))), Stale)
    assert isinstance(made.do(Cancel(job=JobId("a"))), Unsupported)
    outcomes = made.do_all(
        [
            Start(job=JobId("a"), gpus=gpus(0, 1)),
            Start(job=JobId("b"), gpus=gpus(1)),
            Start(job=JobId("b"), gpus=gpus(2)),
        ]
    )
    assert [type(each) for each in outcomes] == [Done, Stale]
    assert made.state.jobs[JobId("b")].phase is Phase.PENDING


def test_a_snapshot_stays_as_it_was_when_the_world_goes_on() -> None:
    made = world(job("a"), job("b", at_s=10))
    before = made.observe()
    made.do(Start(job=JobId("a"), gpus=gpus(0)))
    made.sleep(500)
    assert set(before.jobs) == {"a"}
    assert not before.placements
    assert before.as_of_ms == START_MS


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    jobs = [
        TraceJob(
            name=f"job-{number:02d}",
            project=draw(st.sampled_from(["red", "green"])),
            submitted_s=float(draw(st.integers(0, 2000))),
            gpus=draw(st.integers(1, 4)),
            work=Work(
                steps=float(draw(st.integers(1, 3000))),
                times=draw(st.sampled_from([SteadySteps(), Perfect()])),
            ),
            **draw(st.sampled_from([{}, {"min_gpus": 1, "max_gpus": 6}])),
        )
        for number in range(draw(st.integers(1, 12)))
    ]
    return Workload(origin="drawn", jobs=tuple(sorted(jobs, key=lambda each: (each.submitted_s, each.name))))


QUOTAS = {"green": 4, "red": 4}


@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_gpus_are_conserved_and_every_job_ends_under_every_policy(workload: Workload, policy: str) -> None:
    cluster = Cluster(nodes=2, gpus_per_node=4, quotas=QUOTAS)
    found = compare(workload, [policy], Setting(cluster=cluster))
    run, score = found.runs[policy], found.scores[policy]
    assert all(0 <= point.held_gpus <= cluster.gpus for point in run.points)
    assert all(life.end_ms is not None for life in run.lives.values())
    assert sum(score.gpu_hours.values()) * 3600 == pytest.approx(cluster.gpus * score.makespan_s)
    assert score.gpu_hours["free"] >= -1e-6
    for life in run.lives.values():
        assert life.done == life.job.work.steps
        assert life.useful_gpu_s <= life.held_gpu_s + 1e-6
    assert score.avg_jct_s >= found.fluid_bound_s - 1e-6


@pytest.mark.slow
@given(workloads())
def test_no_project_waits_for_its_own_quota_under_fallow(workload: Workload) -> None:
    cluster = Cluster(nodes=2, gpus_per_node=4, quotas=QUOTAS)
    found = compare(workload, ["fallow"], Setting(cluster=cluster, grace_s=30.0))
    assert found.scores["fallow"].quota_violation_s == 0


def test_a_gang_that_outgrows_its_quota_comes_after_a_job_within_its_own() -> None:
    jobs = [job("stays", 0, 3, 41, project="red"), job("other", 0, 1, 41, project="green")]
    jobs += [job("gang", 1, 4, 31, project="green"), job("small", 1, 1, 5, project="red")]
    setting = Setting(cluster=Cluster(nodes=2, gpus_per_node=4, quotas=QUOTAS), grace_s=30.0)
    found = compare(Workload(origin="test", jobs=tuple(jobs)), ["fallow"], setting)
    lives = {life.job.name: life for life in found.runs["fallow"].lives.values()}
    assert lives["small"].first_start_ms == START_MS + 10_000
    assert found.scores["fallow"].quota_violation_s == 0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_same_input_gives_the_same_result_to_the_byte(policy: str) -> None:
    jobs = tuple(
        job(f"j{number}", number * 37.0, 1 + number % 4, 100 + number * 53 % 700, project="ab"[number % 2])
        for number in range(30)
    )
    setting = Setting(cluster=Cluster(nodes=2, gpus_per_node=4, quotas={"a": 4, "b": 4}))

    def once() -> str:
        found = compare(Workload(origin="test", jobs=jobs), [policy], setting)
        return json.dumps([asdict(found.scores[policy]), [asdict(p) for p in found.runs[policy].points]])

    assert once() == once()


@pytest.mark.parametrize("policy", ["fifo", "fallow"])
@pytest.mark.parametrize(
    ("topology", "gpus", "early"),
    [
        (Topology.ANY, 2, True),
        (Topology.NODE, 2, False),
        (Topology.PREFER_NODE, 2, True),
        (Topology.NODE, 3, False),  # no node has three here: it is played on several
    ],
)
def test_a_job_that_needs_one_node_waits_for_one(
    policy: str, topology: Topology, gpus: int, early: bool
) -> None:
    """After 10 s one GPU of each node is free, after 100 s all of them."""
    rest = [job("a", 0, 1, 100), job("b", 0, 1, 10), job("c", 0, 1, 100), job("d", 0, 1, 10)]
    last = job("last", 1, gpus, 5, topology=topology)
    setting = Setting(cluster=Cluster(nodes=2, gpus_per_node=2), tick_s=1.0, grace_s=0.0)
    found = compare(Workload(origin="test", jobs=(*rest, last)), [policy], setting)
    lives = {life.job.name: life for life in found.runs[policy].lives.values()}
    first_ms = lives["last"].first_start_ms
    assert first_ms is not None and (first_ms < START_MS + 100_000) is early


def test_the_shortest_first_oracle_lets_a_short_job_overtake_and_fifo_does_not() -> None:
    work = Workload(origin="test", jobs=(job("long", 0, 4, 1000), job("short", 5, 4, 10)))
    setting = Setting(cluster=Cluster(nodes=1, gpus_per_node=4), physics=Physics(checkpoint_s=1))
    found = compare(work, ["fifo", "srtf"], setting)
    assert found.scores["srtf"].avg_jct_s < found.scores["fifo"].avg_jct_s
    assert found.scores["fifo"].preemptions == 0
    assert found.scores["srtf"].preemptions == 1


def test_what_is_foretold_orders_a_queue_and_preempts_nobody() -> None:
    jobs = (job("first", 0, 4, 100), job("long", 1, 4, 900), job("short", 2, 4, 10))
    setting = Setting(
        cluster=Cluster(nodes=1, gpus_per_node=4), limits=replace(LIMITS, order=Order.ARRIVAL), tick_s=1.0
    )
    found = compare(Workload(origin="test", jobs=jobs), ["fallow", "foretold"], setting)

    def ended(policy: str) -> list[str]:
        lives = found.runs[policy].lives
        return sorted(lives, key=lambda name: lives[name].job.submitted_s + jct_s(lives[name]))

    assert ended("fallow") == ["first", "long", "short"]
    assert ended("foretold") == ["first", "short", "long"]
    assert found.scores["foretold"].preemptions == 0


def test_a_static_partition_leaves_gpus_free_while_others_wait() -> None:
    work = Workload(
        origin="test",
        jobs=(*tuple(job(f"r{n}", 0, 2, 100, project="red") for n in range(4)), job("g", 0, project="green")),
    )
    setting = Setting(cluster=Cluster(nodes=2, gpus_per_node=4, quotas=QUOTAS))
    found = compare(work, ["static", "fallow"], setting)
    assert found.scores["static"].free_while_waiting_gpu_hours > 0
    assert found.scores["fallow"].avg_jct_s < found.scores["static"].avg_jct_s
    assert max(found.scores["fallow"].fairness_worst.values()) <= 1.0


def test_tiresias_demotes_a_job_that_had_its_sixteen_gpu_hours() -> None:
    hours = 3600.0
    work = Workload(origin="test", jobs=(job("old", 0, 4, 20 * hours), job("new", 5 * hours, 4, hours)))
    setting = Setting(cluster=Cluster(nodes=1, gpus_per_node=4))
    found = compare(work, ["las"], setting)
    assert found.scores["las"].preemptions == 1
    assert jct_s(found.runs["las"].lives[JobId("new")]) < 1.1 * hours


def test_senseless_clusters_and_policies_are_named() -> None:
    work = Workload(origin="test", jobs=(job("a", gpus=8), job("b", 1)))
    with pytest.raises(BadCluster, match="16x4"):
        parse_nodes("sixteen")
    with pytest.raises(BadCluster, match="0 nodes of 4"):
        Cluster(nodes=0, gpus_per_node=4)
    with pytest.raises(BadCluster, match="guarantee 9 GPUs"):
        Cluster(nodes=1, gpus_per_node=8, quotas={"lab": 9})
    with pytest.raises(BadCluster, match="not negative: lab"):
        Cluster(nodes=1, gpus_per_node=8, quotas={"lab": -1})
    with pytest.raises(BadCluster, match=r"got 1\.5"):
        sized_for(work, 1.5, 8)
    for each in (0, -3, 10**7):
        with pytest.raises(BadCluster, match=f"a node has .* got {each}"):
            sized_for(work, 0.8, each)
    with pytest.raises(BadCluster, match="a load of 1e-300"):
        sized_for(work, 1e-300, 8)
    with pytest.raises(BadCluster, match="is not NODESxGPUS"):
        parse_nodes("9" * 5000 + "x1")
    with pytest.raises(BadCluster, match="need 8 GPUs"):
        shared_out(work, 4, 4)
    with pytest.raises(UnknownPolicy, match="'fair'"):
        compare(work, ["fair"], Setting(cluster=Cluster(nodes=1, gpus_per_node=8)))
    with pytest.raises(BadCluster, match="give quotas"):
        compare(work, ["static"], Setting(cluster=Cluster(nodes=1, gpus_per_node=8)))


def test_a_job_larger_than_the_cluster_is_left_out_and_named() -> None:
    work = Workload(origin="test", jobs=(job("huge", gpus=8), job("b", 1)))
    found = compare(work, ["fifo"], Setting(cluster=Cluster(nodes=1, gpus_per_node=4)))
    assert found.scores["fifo"].jobs == 1
    assert "job huge asks for 8 GPUs and the cluster has 4" in found.too_large[0].reason


@pytest.mark.parametrize(
    ("policies", "left"),
    [(["fifo"], ["a"]), (["las"], ["a"]), (["fallow", "srtf"], ["a"]), (["fallow"], ["a", "wide"])],
)
def test_a_job_that_only_some_policies_could_shrink_is_left_out_for_all_of_them(
    policies: list[str], left: list[str]
) -> None:
    work = Workload(origin="test", jobs=(job("a"), job("wide", 1, gpus=8, min_gpus=1, max_gpus=8)))
    found = compare(work, policies, Setting(cluster=Cluster(nodes=1, gpus_per_node=4)))
    assert [[*run.lives] for run in found.runs.values()] == [left] * len(policies)
    assert [row.reason.startswith("job wide asks for 8") for row in found.too_large] == [True] * (
        2 - len(left)
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [([], "no policy is named"), (["fifo", ""], "''"), (["las", "las"], "'las' is named twice")],
)
def test_policies_that_make_no_sense_are_named_with_those_there_are(names: list[str], said: str) -> None:
    work = Workload(origin="test", jobs=(job("a"),))
    with pytest.raises(UnknownPolicy, match=f"{said}.*static, fifo"):
        compare(work, names, Setting(cluster=Cluster(nodes=1, gpus_per_node=4)))


def test_a_scheduler_that_never_starts_anything_ends_in_an_error_that_names_who_waits() -> None:
    class Idle:
        again_s = None

        def decide(self, sight: object) -> tuple[()]:
            return ()

    with pytest.raises(SimulationError, match=r"1 jobs wait.*\(a\)"):
        simulate(
            Cluster(nodes=1, gpus_per_node=4), Workload(origin="test", jobs=(job("a"),)), Idle(), Physics()
        )
