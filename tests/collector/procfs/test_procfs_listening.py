"""Who serves: told by the sockets that listen, and from the trainings that listen as well."""

from pathlib import Path

import pytest

from collector.model import JobKind, NodeName, Process
from collector.procfs.proc_files import MOST_NEAR_DESCRIPTORS
from collector.procfs.process_table import LOOK_FOR_PORTS_MS, SECOND_LOOK_MS, ProcessTable
from tests.collector.procfs.proc_tree import ProcTree

NODE = NodeName("gpu1")
NOW = 1_800_000_000_000
EPHEMERAL = 41_873  # 32768 to 60999 by default, ip(7)
TITLE = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


def inode(port: int) -> int:
    return 500_000 + port


def sockets(tree: ProcTree, pid: int, ports: tuple[int, ...], state: str = "0A", table: str = "tcp") -> None:
    """What the process's network namespace shows, as the kernel prints it: port and state in hexadecimal."""
    folder = tree.root / str(pid) / "net"
    folder.mkdir(exist_ok=True)
    rows = [
        f"{at:4d}: 00000000:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000"
        f"  1000        0 {inode(port)} 1 0000000000000000 100 0 0 10 0\n"
        for at, port in enumerate(ports)
    ]
    (folder / table).write_text(TITLE + "".join(rows))


def has(*ports: int) -> tuple[str, ...]:
    return ("/dev/null", "/dev/nvidia0", *(f"socket:[{inode(port)}]" for port in ports))


def looked(tree: ProcTree, pid: int = 71) -> Process:
    return ProcessTable(NODE, tree.root, user_name=lambda _: "ann").look([pid], NOW)[pid]


def told(process: Process) -> tuple[tuple[int, ...] | None, JobKind | None]:
    return process.listens, process.kind


def test_a_program_that_no_list_knows_is_a_server_by_its_port(tree: ProcTree) -> None:
    tree.add(71, argv=("python", "api.py"), opens=has(5000))
    sockets(tree, 71, (22, 5000))
    assert told(looked(tree)) == ((5000,), JobKind.INFERENCE)


def test_a_port_of_the_sixth_version_counts_too(tree: ProcTree) -> None:
    tree.add(71, argv=("python", "api.py"), opens=has(8080))
    sockets(tree, 71, ())
    sockets(tree, 71, (8080,), table="tcp6")
    assert told(looked(tree)) == ((8080,), JobKind.INFERENCE)


def test_somebody_elses_port_is_not_its_own(tree: ProcTree) -> None:
    tree.add(71, opens=has())
    sockets(tree, 71, (8000,))
    assert told(looked(tree)) == ((), JobKind.BATCH)


def test_a_connection_to_a_server_is_no_server(tree: ProcTree) -> None:
    tree.add(71, opens=has(8000))
    sockets(tree, 71, (8000,), state="01")
    assert told(looked(tree)) == ((), JobKind.BATCH)


@pytest.mark.parametrize("port", [EPHEMERAL, 29_500, 29_400, 12_355, 6_006, 5_678])
def test_a_trainings_own_ports_make_no_server(tree: ProcTree, port: int) -> None:
    # NCCL and Gloo bind to port 0; torch's store to 29500, torchrun's to 29400; then TensorBoard and debugpy.
    tree.add(71, opens=has(port))
    sockets(tree, 71, (port,))
    assert told(looked(tree)) == ((), JobKind.BATCH)


def test_the_kernels_own_range_is_read_where_it_is_another(tree: ProcTree) -> None:
    (tree.root / "sys/net/ipv4").mkdir(parents=True)
    (tree.root / "sys/net/ipv4/ip_local_port_range").write_text("15000\t61000\n")
    tree.add(71, opens=has(20_000))
    sockets(tree, 71, (20_000,))
    assert told(looked(tree)) == ((), JobKind.BATCH)


@pytest.mark.parametrize(
    "environ", [{"MASTER_PORT": "6000"}, {"RANK": "0"}, {"WORLD_SIZE": "2"}, {"TORCHELASTIC_RUN_ID": "none"}]
)
def test_a_rank_that_keeps_the_store_is_no_server(tree: ProcTree, environ: dict[str, str]) -> None:
    tree.add(71, opens=has(6000), environ=environ)
    sockets(tree, 71, (6000,))
    assert told(looked(tree)) == ((), JobKind.BATCH)


@pytest.mark.parametrize(
    "argv",
    [
        ("python", "/env/bin/torchrun", "--nproc-per-node=2", "train.py"),
        ("/env/bin/accelerate", "launch", "train.py"),
        ("mpirun", "-n", "2", "python", "train.py"),
        ("python", "-m", "distributed.cli.dask_worker", "tcp://host:8786"),
    ],
)
def test_ranks_of_a_launcher_are_no_servers(tree: ProcTree, argv: tuple[str, ...]) -> None:
    tree.add(70, name="launcher", argv=argv, opens=has(7000))
    tree.add(71, parent=70, group=70, opens=has(7001))
    sockets(tree, 71, (7000, 7001))
    assert told(looked(tree)) == ((), JobKind.BATCH)


def test_a_ray_worker_listens_and_is_no_server_but_a_replica_of_ray_serve_is(tree: ProcTree) -> None:
    tree.add(71, argv=("ray::train_loop",), opens=has(10_008))  # worker ports are 10002 to 19999 (ray start)
    tree.add(72, argv=("ray::ServeReplica:llm:VLLMDeployment",), opens=has(10_009))
    for pid in (71, 72):
        sockets(tree, pid, (10_008, 10_009))
    assert looked(tree, 71).kind is JobKind.BATCH
    assert looked(tree, 72).kind is JobKind.INFERENCE


def test_a_notebook_kernel_with_a_demo_in_it_stays_a_notebook(tree: ProcTree) -> None:
    tree.add(71, argv=("python", "-m", "ipykernel_launcher", "-f", "/run/kernel-ab.json"), opens=has(7860))
    sockets(tree, 71, (7860,))
    assert told(looked(tree)) == ((), JobKind.INTERACTIVE)


def test_an_engine_serves_by_its_parent_s_port(tree: ProcTree) -> None:
    tree.add(70, argv=("python", "serve.py"), opens=has(8000))
    tree.add(71, parent=70, group=70, argv=("python", "-c", "from multiprocessing.spawn import spawn_main"))
    sockets(tree, 71, (8000,))
    assert told(looked(tree)) == ((8000,), JobKind.INFERENCE)


def test_a_front_end_that_the_engine_started_counts_in_its_session_or_group(tree: ProcTree) -> None:
    tree.add(71, opens=has(), cgroup="0::/a\n")
    children = tree.root / "71/task/71"
    children.mkdir(parents=True)
    (children / "children").write_text("72 ")
    sockets(tree, 71, (8000,))
    tree.add(72, parent=71, group=72, opens=has(8000), cgroup="0::/elsewhere\n")
    assert looked(tree).listens == ()
    tree.add(72, parent=71, group=71, opens=has(8000), cgroup="0::/elsewhere\n")
    assert looked(tree).listens == (8000,)
    tree.add(72, parent=71, group=72, opens=has(8000), cgroup="0::/a\n")
    assert looked(tree).listens == (8000,)


def test_a_board_that_a_training_started_to_watch_itself_is_no_server(tree: ProcTree) -> None:
    tree.add(71, opens=has())
    children = tree.root / "71/task/71"
    children.mkdir(parents=True)
    (children / "children").write_text("72 ")
    tree.add(
        72, parent=71, group=71, argv=("python", "/env/bin/tensorboard", "--port", "8001"), opens=has(8001)
    )
    sockets(tree, 71, (8001,))
    assert told(looked(tree)) == ((), JobKind.BATCH)


def test_both_sorts_of_ports_are_unknown_and_say_so(tree: ProcTree) -> None:
    # mp.spawn sets MASTER_PORT where /proc cannot see it: the store's port, and NCCL's beside it.
    tree.add(71, opens=has(12_001, EPHEMERAL))
    sockets(tree, 71, (12_001, EPHEMERAL))
    found = looked(tree)
    assert told(found) == (None, JobKind.BATCH)
    assert [note for note in found.unreadable if note.startswith("listens: ")]


def test_a_server_is_found_when_it_has_loaded_its_model(tree: ProcTree) -> None:
    tree.add(71, argv=("python", "api.py"), opens=has())
    sockets(tree, 71, ())
    table = ProcessTable(NODE, tree.root, user_name=lambda _: "ann")
    assert table.look([71], NOW)[71].listens == ()
    second = table.look([71], NOW + SECOND_LOOK_MS)[71]
    (tree.root / "71/fd/9").symlink_to(f"socket:[{inode(8000)}]")
    sockets(tree, 71, (8000,))
    assert table.look([71], NOW + LOOK_FOR_PORTS_MS - 1)[71] is second
    third = table.look([71], NOW + LOOK_FOR_PORTS_MS)[71]
    assert told(third) == ((8000,), JobKind.INFERENCE)
    assert table.look([71], NOW + 2 * LOOK_FOR_PORTS_MS)[71] is third


def test_of_a_process_near_one_few_open_files_are_looked_at(tree: ProcTree) -> None:
    """Eighty of them may share thousands; who listens opened that early."""
    ports = tuple(range(5001, 5001 + MOST_NEAR_DESCRIPTORS + 40))
    tree.add(71, argv=("python", "api.py"), opens=has(5000))
    tree.add(72, parent=71, group=71, opens=tuple(f"socket:[{inode(port)}]" for port in ports))
    (tree.root / "71" / "task" / "71").mkdir(parents=True)
    (tree.root / "71" / "task" / "71" / "children").write_text("72 ")
    sockets(tree, 71, (5000, *ports))
    assert len(looked(tree).listens or ()) == 1 + MOST_NEAR_DESCRIPTORS
