"""Accounting for the real Slurm of ``slurm_cluster``: slurmdbd, and MariaDB below it, in its folder.

Up in some 10 s, most of them MariaDB's. Debian's slurmdbd, mariadb-server-core and mariadb-client-core have
the programs; MariaDB runs as root, since its account comes with the whole server, which nobody needs here.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.slurm_cluster import SlurmCluster, slurm_cluster

PROGRAMS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
LIMITED = "single"
"""A QOS of which everybody may run one job. Limits on GPUs take a controller that has told what GPUs are."""
DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
"""
SLURM_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={folder}/munge/sock
AccountingStorageTRES=gres/gpu,gres/gpu:h200,gres/shard
AccountingStoreFlags=job_comment
AccountingStorageEnforce=limits,qos
"""


@contextmanager
def accounted_cluster(
    folder: Path, *, nodes: int = 2, gpus: int = 8, conf: str = ""
) -> Iterator[SlurmCluster]:
    """A cluster whose jobs are accounted. Skips, and says so, where its programs are missing.

    ``conf`` are further lines of slurm.conf; the later of two that say the same counts.
    """
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(
            f"{', '.join(missing)} not installed: Debian's slurmdbd and mariadb-server-core have them"
        )
    with slurm_cluster(folder, nodes=nodes, gpus=gpus, accounting=partial(_begin, conf)) as cluster:
        cluster.until(
            "TRES", "sh", "-c", "sacctmgr --noheader --parsable2 list tres | grep -c '^gres|gpu|'", says="1"
        )
        yield cluster


def _begin(conf_lines: str, cluster: SlurmCluster, host: str, ports: tuple[int, int]) -> None:
    """MariaDB, then slurmdbd, then the cluster's name in it: slurmctld needs all three."""
    folder, data = cluster.folder, cluster.folder / "db"
    told = {"folder": folder, "host": host, "sql_port": ports[0], "dbd_port": ports[1]}
    data.mkdir()
    cluster.ask(
        *("env", f"TMPDIR={folder}", "mariadb-install-db"),  # its files of /tmp have names of process ids
        "--no-defaults",
        "--user=root",
        f"--datadir={data}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    )
    cluster.commands["mariadbd"] = [
        "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={data}",
        f"--tmpdir={folder}",
        f"--socket={data}/s",
        f"--pid-file={data}/pid",
        "--bind-address=127.0.0.1",
        f"--port={ports[0]}",
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=2",
    ]
    cluster.commands["slurmdbd"] = ["slurmdbd", "-D"]
    cluster.start("mariadbd")
    sql = ("mariadb", "--no-defaults", f"--socket={data}/s", "--user=root", "--execute")
    cluster.until("MariaDB", *sql, "create database if not exists slurm_acct_db", says="")
    cluster.ask(*sql, "create user slurm@'127.0.0.1' identified by 'x'")
    cluster.ask(*sql, "grant all on slurm_acct_db.* to slurm@'127.0.0.1'")
    conf = folder / "slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(DBD_CONF.format(**told))
    with cluster.conf.open("a") as file:
        file.write(SLURM_CONF.format(**told) + conf_lines)
    cluster.start("slurmdbd")
    cluster.until("slurmdbd", "sacctmgr", "--noheader", "list", "cluster", says="")
    cluster.ask("sacctmgr", "--immediate", "add", "cluster", "lab")
    cluster.ask("sacctmgr", "--immediate", "add", "qos", LIMITED, "set", "MaxJobsPerUser=1")
    qos = (f"QOS=normal,{LIMITED}", "DefaultQOS=normal")
    cluster.ask("sacctmgr", "--immediate", "modify", "user", "root", "set", *qos)
