"""Months out of a real Prometheus: every sample as scraped, every holder, no hole filled, no row twice."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from collector.model import ClaimSource
from collector.sources.prometheus.import_history import (
    ImportSettings,
    NoDcgmMetrics,
    Progress,
    Range,
    import_history,
    survey,
)
from collector.sources.prometheus.server import Access
from tests.collector.backfill.past import Life, MemoryStore, prometheus, write_blocks
from tests.collector.dcgm.dcgm_writer import BASE_UNITS, CLASSIC, MIB, RENAMED, Board, Facts
from tests.stores import open_store

pytestmark = pytest.mark.process

S, MINUTE, HOUR = 1000, 60_000, 3_600_000
START = 1_763_000_000_000 // HOUR * HOUR
RENAMED_AT = START + 20 * HOUR
END = START + 30 * HOUR
GAP = (START + 9 * HOUR, START + 10 * HOUR + 30 * MINUTE)
STEP = 30 * S
DEFAULT = 'job="dcgm"'
WINDOW = (START, END)


def scrapes(from_ms: int, to_ms: int, offset_ms: int, *holes: Range, step_ms: int = STEP) -> tuple[int, ...]:
    """Scrape times after ``from_ms`` up to ``to_ms``, none in a hole."""
    every = range(START + offset_ms, to_ms + 1, step_ms)
    return tuple(t for t in every if from_ms < t <= to_ms and not any(a < t <= b for a, b in holes))


def facts(seed: int, at_ms: int) -> Facts:
    """What a GPU did at a moment: all of it a function of the moment."""
    n = (at_ms // STEP * 2654435761 + seed * 40503) % 1_000_003
    used = n % 40_000
    return Facts(
        gpu_utilization_ratio=(n % 101) / 100,
        memory_controller_ratio=(n % 97) / 100,
        graphics_active_ratio=(n % 1009) / 1009 // 1e-6 * 1e-6,
        dram_active_ratio=(n % 499) / 500,
        memory_used_bytes=used * MIB,
        memory_free_bytes=(80_000 - used) * MIB,
        power_mw=50_000 + n % 650_000,
        energy_mj=(at_ms - START + HOUR) * 300,
        temperature_c=30 + n % 50,
        sm_clock_mhz=1980,
        xid=79 if at_ms > START + 25 * HOUR and seed == 1 else 0,
    )


@dataclass(frozen=True)
class Held:
    """A pod on a GPU in a stretch of time."""

    uuid: str
    pod: str
    from_ms: int
    to_ms: int


PODS = (
    Held("GPU-a", "train-0", START, START + 4 * HOUR),
    Held("GPU-a", "train-1", START + 4 * HOUR, START + 12 * HOUR),
    Held("GPU-a", "train-2", START + 14 * HOUR, END),
    Held("GPU-b", "notebook-a", START + 6 * HOUR, START + 8 * HOUR),
    Held("GPU-b", "notebook-b", START + 7 * HOUR, START + 9 * HOUR),
)


def lives_of(seed: int, uuid: str) -> Iterator[Life]:
    """A GPU of node-1: pods that come and go, a rename in the middle, a hole of an hour and a half."""
    edges = sorted(
        {START, RENAMED_AT, END, *(t for p in PODS if p.uuid == uuid for t in (p.from_ms, p.to_ms))}
    )
    for from_ms, to_ms in pairwise(edges):
        dialect = CLASSIC if from_ms < RENAMED_AT else BASE_UNITS
        here = [p.pod for p in PODS if p.uuid == uuid and p.from_ms <= from_ms and p.to_ms >= to_ms]
        for pod in here or [""]:
            holders = {"pod": pod, "namespace": "vision" if pod else "", "container": "main" if pod else ""}
            yield Life(
                board=Board(uuid=uuid, index=seed, holders=holders),
                dialect=dialect,
                at_ms=scrapes(from_ms, to_ms, 1234, GAP),
                facts=lambda at, seed=seed: facts(seed, at),  # type: ignore[misc]
            )


def lives() -> Iterator[Life]:
    yield from lives_of(0, "GPU-a")
    yield from lives_of(1, "GPU-b")
    yield Life(
        board=Board(uuid="GPU-c", index=0, node="node-2", model="Tesla T4"),
        dialect=RENAMED,
        at_ms=tuple(at + at // STEP * 7919 % 400 for at in scrapes(START, END - STEP, 20_500)),
        facts=lambda at: facts(2, at),
        target={"job": "dcgm", "instance": "10.0.0.2:9400"},
    )
    for instance, profile, pod in (("7", "3g.40gb", "infer-0"), ("9", "1g.10gb", "")):
        holders = {"pod": pod, "namespace": "serving" if pod else ""}
        yield Life(
            board=Board(
                uuid="GPU-m", index=0, node="node-3", instance=instance, profile=profile, holders=holders
            ),
            dialect=BASE_UNITS,
            at_ms=scrapes(START + 2 * HOUR, START + 5 * HOUR, 7_000),
            facts=lambda at, instance=instance: replace(  # type: ignore[misc]
                facts(int(instance), at), gpu_utilization_ratio=None, power_mw=300_000, energy_mj=at - START
            ),
            target={"job": "dcgm", "instance": "10.0.0.3:9400"},
        )
    yield from other_lives()


def other_lives() -> Iterator[Life]:
    """Other servers' habits, each under a job of its own."""
    own = {"pod": "gpu-metrics-x", "namespace": "ops"}
    for uuid, holders in (("GPU-x", {"exported_pod": "p", "exported_namespace": "ns"}), ("GPU-y", {})):
        yield Life(
            board=Board(uuid=uuid, holders=holders | own),
            dialect=CLASSIC,
            at_ms=scrapes(START, START + HOUR, 0),
            facts=lambda at: facts(4, at),
            target={"job": "relabelled", "instance": "a"},
        )
    for replica, offset in (("r1", 0), ("r2", 11_000)):
        yield Life(
            board=Board(uuid="GPU-r"),
            dialect=CLASSIC,
            at_ms=scrapes(START, START + HOUR, offset),
            facts=lambda at: facts(5, at),
            target={"job": "replicated", "instance": "a", "prometheus_replica": replica},
        )
    yield Life(
        board=Board(uuid="GPU-s"),
        dialect=CLASSIC,
        at_ms=scrapes(START, START + HOUR, 0, step_ms=15 * S),
        facts=lambda at: facts(6, at),
        target={"job": "often", "instance": "a"},
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with all the lives, that refuses large queries so that they must be cut."""
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus(write_blocks(lives(), folder), "--query.max-samples=9000") as url:
        yield url


def run(url: str, store: MemoryStore, match: str = DEFAULT, window: Range = WINDOW, rows: int = 1_500):  # type: ignore[no-untyped-def]
    return import_history(
        Access(url=url), window, store=store, settings=ImportSettings(match=match, rows=rows)
    )


@pytest.fixture(scope="module")
def imported(url: str) -> MemoryStore:
    store = MemoryStore()
    run(url, store)
    return store


def rows_of(store: MemoryStore) -> dict[tuple[str, int], dict[str, object]]:
    rows = [row for history in store.histories for row in history.samples.to_pylist()]
    found = {(row["uuid"], row["at_ms"]): row for row in rows}
    assert len(found) == len(rows), "a row came twice"
    return found


def held_of(store: MemoryStore) -> set[tuple[str, str, float, int, int]]:
    """The intervals, touching ones joined as the store joins them."""
    pieces = sorted(
        (h.allocation.uuid, h.allocation.holder.job, round(h.allocation.share, 6), h.from_ms, h.to_ms or 0)
        for history in store.histories
        for h in history.held
    )
    joined: list[tuple[str, str, float, int, int]] = []
    for piece in pieces:
        if joined and joined[-1][:3] == piece[:3] and joined[-1][4] >= piece[3]:
            joined[-1] = (*joined[-1][:4], max(joined[-1][4], piece[4]))
        else:
            joined.append(piece)
    return set(joined)


def test_every_sample_is_as_it_was_scraped(imported: MemoryStore) -> None:
    rows = rows_of(imported)
    whole = [life for life in lives() if life.target["job"] == "dcgm" and not life.board.instance]
    expected = {(life.board.uuid, at): life.facts(at) for life in whole for at in life.at_ms}
    assert {key for key in rows if not key[0].endswith(("GPU-m", "/7", "/9"))} == set(expected)
    for key, fact in expected.items():
        row = rows[key]
        for name in Facts.__slots__:
            want = getattr(fact, name)
            if name in row and want is None:
                assert row[name] is None, (key, name)
            elif name in row:
                close = 500 if name == "energy_mj" and row["at_ms"] > RENAMED_AT else 1e-6
                assert row[name] == pytest.approx(want, rel=1e-6 if close < 1 else 0, abs=close), (key, name)
        assert (row["rung"], row["utilization_ratio"]) == (2, row["graphics_active_ratio"])
        assert row["process_count"] is None and row["sm_active_ratio"] is None and row["flags"] is None


def test_widths_tile_the_time_and_stop_at_the_hole(imported: MemoryStore) -> None:
    rows = rows_of(imported)
    times = sorted(at for uuid, at in rows if uuid == "GPU-a")
    for before, at in pairwise(times):
        assert rows["GPU-a", at]["width_ms"] == (STEP if at - before > STEP else at - before)
    gaps = [g for history in imported.histories for g in history.gaps if g.uuid == "GPU-a"]
    (gap,) = gaps
    assert gap.from_ms == max(t for t in times if t <= GAP[0])
    assert gap.to_ms == min(t for t in times if t > GAP[1]) - STEP


def test_holders_are_intervals_of_the_pods_that_came_and_went(imported: MemoryStore) -> None:
    def pod(uuid: str, name: str, share: float, from_ms: int, to_ms: int) -> tuple[str, str, float, int, int]:
        return uuid, f"pod:{'serving' if name == 'infer-0' else 'vision'}/{name}", share, from_ms, to_ms

    def before(at: int, offset: int = 1234) -> int:
        """The scrape at or before a moment."""
        return START + (at - START - offset) // STEP * STEP + offset

    h = HOUR
    assert held_of(imported) == {
        pod("GPU-a", "train-0", 1.0, before(START), before(START + 4 * h)),
        pod("GPU-a", "train-1", 1.0, before(START + 4 * h), before(GAP[0])),
        pod("GPU-a", "train-1", 1.0, before(GAP[1]), before(START + 12 * h)),
        pod("GPU-a", "train-2", 1.0, before(START + 14 * h), before(END)),
        pod("GPU-b", "notebook-a", 1.0, before(START + 6 * h), before(START + 7 * h)),
        pod("GPU-b", "notebook-a", 0.5, before(START + 7 * h), before(START + 8 * h)),
        pod("GPU-b", "notebook-b", 0.5, before(START + 7 * h), before(START + 8 * h)),
        pod("GPU-b", "notebook-b", 1.0, before(START + 8 * h), before(GAP[0])),
        pod("MIG-GPU-m/7", "infer-0", 1.0, before(START + 2 * h, 7000), before(START + 5 * h, 7000)),
    }
    sources = {h.allocation.source for history in imported.histories for h in history.held}
    assert sources == {ClaimSource.KUBERNETES}


def test_mig_instances_keep_their_values_and_the_board_its_own(imported: MemoryStore) -> None:
    rows = rows_of(imported)
    times = sorted(at for uuid, at in rows if uuid == "GPU-m")
    assert times == list(scrapes(START + 2 * HOUR, START + 5 * HOUR, 7_000))
    for at in times:
        board, seven, nine = (rows[uuid, at] for uuid in ("GPU-m", "MIG-GPU-m/7", "MIG-GPU-m/9"))
        assert (board["power_mw"], seven["power_mw"], nine["power_mw"]) == (300_000, None, None)
        assert (board["rung"], board["memory_used_bytes"]) == (0, None)
        for instance, row in ((7, seven), (9, nine)):
            assert row["memory_used_bytes"] == facts(instance, at).memory_used_bytes
            assert row["graphics_active_ratio"] == pytest.approx(
                facts(instance, at).graphics_active_ratio, abs=1e-6
            )
    gpus = {gpu.uuid: gpu for history in imported.histories for gpu in history.gpus}
    shares = {uuid: round(gpu.share_of_device * 7) for uuid, gpu in gpus.items() if "GPU-m" in uuid}
    assert shares == {"GPU-m": 3, "MIG-GPU-m/7": 3, "MIG-GPU-m/9": 1}
    assert gpus["MIG-GPU-m/7"].parent_uuid == "GPU-m"  # type: ignore[index]
    assert gpus["GPU-a"].memory_total_bytes == 80_000 * MIB  # type: ignore[index]
    assert {gpu.node for gpu in gpus.values()} == {"node-1", "node-2", "node-3"}


def test_xid_that_appears_is_one_event_at_its_moment(imported: MemoryStore) -> None:
    (event,) = (event for history in imported.histories for event in history.events)
    first = min(at for at in scrapes(START, END, 1234) if at > START + 25 * HOUR)
    assert (event.uuid, event.kind, event.at_ms) == ("GPU-b", "xid", first)
    assert event.detail.startswith("79: ")


def test_a_repeated_import_adds_nothing(url: str, imported: MemoryStore) -> None:
    before = len(rows_of(imported))
    store = MemoryStore()
    store.ranges = list(imported.ranges)
    assert run(url, store).read_ms == 5 * MINUTE
    whole = MemoryStore()
    summary = run(url, whole)
    assert summary.rows_added == before and summary.skipped_ms == 0
    again = MemoryStore()
    again._rows = set(rows_of(whole))
    assert run(url, again).rows_added == 0


def test_pieces_of_another_size_bring_the_same(url: str, imported: MemoryStore) -> None:
    other = MemoryStore()
    summary = run(url, other, rows=60_000)
    assert summary.pieces < len(imported.histories)
    assert rows_of(other) == rows_of(imported)
    assert held_of(other) == held_of(imported)


class Stop(Exception):
    """A person presses Ctrl-C."""


def test_an_import_that_was_interrupted_goes_on_where_it_was(url: str, imported: MemoryStore) -> None:
    store, seen = MemoryStore(), []

    def stop_at(limit: int):  # type: ignore[no-untyped-def]
        def progress(step: Progress) -> None:
            seen.append(step)
            if len(seen) == limit:
                raise Stop

        return progress

    settings = ImportSettings(match=DEFAULT, rows=1_500)
    for limit in (2, 5):
        with pytest.raises(Stop):
            import_history(Access(url=url), WINDOW, store=store, settings=settings, progress=stop_at(limit))
    summary = import_history(Access(url=url), WINDOW, store=store, settings=settings)
    assert summary.skipped_ms > 0
    assert rows_of(store) == rows_of(imported) and held_of(store) == held_of(imported)
    assert [step.done_ms for step in seen[2:5]] == sorted(step.done_ms for step in seen[2:5])
    assert seen[0].total_ms == END - START > seen[2].total_ms


CHILD = """
import json, sys
from pathlib import Path
from collector.sources.prometheus.import_history import ImportSettings, import_history
from collector.sources.prometheus.server import Access
from collector.store.database import open_store
url, path, window, match = json.loads(sys.argv[1])
with open_store(Path(path)) as store:
    import_history(
        Access(url=url), tuple(window), store=store, settings=ImportSettings(match=match, rows=1_500),
        progress=lambda step: print(step.done_ms, flush=True),
    )
"""


def test_killed_import_into_the_real_store_is_resumed_without_a_row_twice(
    url: str, imported: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "fallow.duckdb"
    argument = json.dumps([url, str(path), WINDOW, DEFAULT])
    child = subprocess.Popen([sys.executable, "-c", CHILD, argument], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(3):
        assert child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    settings = ImportSettings(match=DEFAULT, rows=1_500)
    expected = rows_of(imported)
    with open_store(path) as store:
        summary = import_history(Access(url=url), WINDOW, store=store, settings=settings)
        assert summary.skipped_ms > 0 and 0 < summary.rows_added < len(expected)
        again = import_history(Access(url=url), WINDOW, store=store, settings=settings)
        assert again.rows_added == 0
        with store.reader() as reader:
            counted = reader.execute("SELECT count(*), count(DISTINCT (ts, gpu_id)) FROM samples").fetchone()
            held = reader.execute(
                "SELECT uuid, job, share, epoch_ms(from_ts), epoch_ms(to_ts) "
                "FROM allocations JOIN gpus USING (gpu_id) JOIN holders USING (holder_id)"
            ).fetchall()
    assert counted == (len(expected), len(expected))
    both = sorted(each for each in held_of(imported) if each[:2] == ("GPU-a", "pod:vision/train-1"))
    assert [after[3] - before[4] for before, after in pairwise(both)] == [90 * 60 * S]
    # of its GPU nobody has a sample in that hour and a half: it held it all the time
    whole = {(*both[0][:4], both[1][4])} | held_of(imported) - set(both)
    assert {(u, j, round(s, 6), a, b) for u, j, s, a, b in held} == whole
    assert len(held) == len(whole)


def test_scrape_step_is_found_by_itself(url: str) -> None:
    for match, step in ((DEFAULT, STEP), ('job="often"', 15 * S)):
        found = survey(Access(url=url), WINDOW, store=MemoryStore(), settings=ImportSettings(match=match))
        assert found.step_ms == step
    store = MemoryStore()
    run(url, store, 'job="often"')
    assert {row["width_ms"] for row in rows_of(store).values()} == {15 * S}


def test_pod_of_the_exporter_itself_holds_nothing(url: str) -> None:
    store = MemoryStore()
    run(url, store, 'job="relabelled"')
    assert {held[:2] for held in held_of(store)} == {("GPU-x", "pod:ns/p")}


def test_of_two_replicas_one_is_heard(url: str) -> None:
    store = MemoryStore()
    run(url, store, 'job="replicated"')
    assert {at for _, at in rows_of(store)} == set(scrapes(START, START + HOUR, 0))


def test_a_window_without_dcgm_says_what_is_there_instead(url: str) -> None:
    with pytest.raises(NoDcgmMetrics, match="nothing at all"):
        run(url, MemoryStore(), window=(END + 30 * HOUR, END + 40 * HOUR))
    with pytest.raises(NoDcgmMetrics, match=r"other metrics \(DCGM"):
        run(url, MemoryStore(), match='job="elsewhere"')
