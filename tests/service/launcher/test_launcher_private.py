"""Private mode on a real service: words in everything that a person can set, searched for in every answer.

The routes are those of the table of rules, the queries those of the catalogue, so that none can be forgotten.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import pytest

from analytics import query
from service.api.roles import RULES
from service.client.transport import UnixConnection
from tests.driver.driver import GIB, CompilerMissing, Driver, build
from tests.service.api.conftest import ALICE, BOB, as_uid
from tests.service.launcher.conftest import until
from tests.service.launcher.site import LIMIT_S, Site
from tests.service.launcher.test_launcher_claims import asks, keeps_waiting, says

NAME, COMMAND, FAILED, BECAUSE = "SECRETNAME", "SECRETCOMMAND", "SECRETPROGRAM", "SECRETBECAUSE"
PROCESS, WORD, NOTEBOOK, RUN, CLAIM, ENDED = (
    "SECRETPROC",
    "SECRETWORD",
    "SECRETNOTEBOOK",
    "SECRETRUN",
    "SECRETCLAIM",
    "SECRETENDED",
)
SECRETS = {NAME, COMMAND, FAILED, BECAUSE, PROCESS, WORD, NOTEBOOK, RUN, CLAIM, ENDED}
MINUTE_MS = 60_000
PRIVATE = """private = true
[limits]
calls_per_minute = 100000
never_fitting = "wait"
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    try:
        build()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    place = Path(tempfile.mkdtemp(prefix="fallow-site-"))
    place.chmod(0o755)
    with Driver(tmp_path, gpus=2) as driver:
        made = Site(tmp_path, driver, place)
        config = made.data / "fallow.toml"
        config.write_text(
            config.read_text()
            + 'private = true\n[limits]\ncalls_per_minute = 100000\nnever_fitting = "wait"\n'
        )
        made.serve()
        try:
            yield made
        finally:
            made.close()
            shutil.rmtree(place)


@pytest.mark.process
def test_no_answer_tells_others_what_somebody_runs(site: Site) -> None:
    stopped = cancelled_by_an_operator(site)
    jobs = {submitted_and_failed(site), kept_in_the_queue(site), stopped}
    for each in processes(site):
        site.started.append(each)
        site.driver.gpu(1).process(each.pid, GIB)
    foreign = unlaunched(site)
    keep(site, foreign, BECAUSE)
    paths = asked_paths(site, {*jobs, foreign})
    everything = set().union(*answers(site, paths).values())
    assert everything == SECRETS, "an operator sees all, so every word is in some answer"
    own = set().union(*as_uid(ALICE, lambda: answers(site, paths)).values())
    row = as_uid(ALICE, lambda: site.client().actions(job=stopped))[0]
    assert (row["user"], row["reason"]) == (f"uid-{ALICE}", ENDED), "an operator's reason, for the owner"
    told = as_uid(BOB, lambda: answers(site, paths))
    assert {path: words for path, words in told.items() if words} == {}
    assert own == SECRETS, "the owner sees own words"


def submitted_and_failed(site: Site) -> str:
    """A job with a name and a command, whose program there isn't."""
    job = asks(site, ALICE, name=NAME, command=["python", COMMAND], kind="batch")
    told = keeps_waiting(site, ALICE, job)
    failed = f"No such file: '/opt/{FAILED}'"
    says(site, ALICE, job, "pending", acknowledged=told["number"], failed=failed, proof=told["proof"])
    until(lambda: FAILED in str(site.client().job(job)), "the failure is known", LIMIT_S)
    return job


def kept_in_the_queue(site: Site) -> str:
    job = asks(site, ALICE, name=NAME, command=[COMMAND], min_gpus=512, max_gpus=512)
    as_uid(ALICE, lambda: site.client().pause(job, because=BECAUSE))
    return job


def cancelled_by_an_operator(site: Site) -> str:
    job = asks(site, ALICE, name=NAME, command=[COMMAND], min_gpus=512, max_gpus=512)
    site.client().cancel(job, because=ENDED)
    return job


def processes(site: Site) -> Iterator["subprocess.Popen[bytes]"]:
    """One of a notebook with a run's id, one whose claim cannot be read."""
    program = site.socket.parent / PROCESS
    shutil.copy("/bin/sh", program)
    program.chmod(0o755)
    for said in (
        {"JPY_SESSION_NAME": f"/x/{NOTEBOOK}.ipynb", "WANDB_RUN_ID": RUN},
        {"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_GPUS": CLAIM},
    ):
        yield subprocess.Popen(
            [str(program), "-c", f"read {WORD}"],
            stdin=subprocess.PIPE,
            env={"PATH": "/bin", **said},
            user=ALICE,
            group=ALICE,
            extra_groups=[],
            start_new_session=True,
        )


def unlaunched(site: Site) -> str:
    """The notebook's job, once it is known by its name."""
    found: set[str] = set()

    def known() -> bool:
        texts = [ask(site, path)[1] for path in query_paths(site, set()) if "gpu_holders" in path]
        rows = [row for text in texts for row in json.loads(text)]
        found.update(row["job"] for row in rows if NOTEBOOK in str(row["job_name"]))
        unclear = next(path for path in query_paths(site, set()) if "/unclear_claims?" in path)
        return bool(found) and CLAIM in ask(site, unclear)[1]

    until(known, "the notebook's job and the unclear claim are known", LIMIT_S)
    return found.pop()


def keep(site: Site, job: str, because: str) -> None:
    as_uid(ALICE, lambda: site.client().keep(job, hours=4, because=because))


def asked_paths(site: Site, jobs: set[str]) -> list[str]:
    """A request for every route of the table that answers a GET, and each of its ways to name a job."""
    routes = {path for method, path in RULES if method == "GET"}
    described = json.loads(ask(site, "/openapi.json")[1])["paths"]
    paths = query_paths(site, jobs)
    for route in sorted(routes - {"/v1/query/{name}"}):
        plain = route.replace("{job:path}", "{job}")
        wants = described.get(plain, {}).get("get", {}).get("parameters", [])
        names = {each["name"] for each in wants if each["in"] == "query"}
        filled = [plain.replace("{job}", job) for job in sorted(jobs)] if "{job}" in plain else [plain]
        assert not any("{" in each for each in filled), f"say how {route} is asked"
        if "from_ms" in names:
            filled = [f"{each}?from_ms=0&to_ms={time.time_ns() // 1_000_000}" for each in filled]
        paths += filled
        paths += [f"{each}?{urlencode({'job': job})}" for each in filled for job in jobs if "job" in names]
    return paths


def query_paths(site: Site, jobs: set[str]) -> list[str]:
    """Every query of the catalogue, for each GPU and each job where it asks for one."""
    now_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
    span = {"from_ts": now_ms - 10 * MINUTE_MS, "to_ts": now_ms + 10 * MINUTE_MS, "as_of": now_ms + MINUTE_MS}
    since = {"bins_from": span["from_ts"], "bins_to": span["to_ts"], "samples_from": span["from_ts"]}
    more = {"since_ts": span["from_ts"], "use_from": span["from_ts"], "step_s": 60, "gpu_ids": [1, 2]}
    more["jobs"] = sorted(jobs) or ["none"]
    given: Mapping[str, object] = {**span, **since, **more, "full_ratio": 0.9, "flat_ratio": 0.1}
    paths = []
    for spec in query.catalogue().values():
        wanted = {each.name for each in spec.parameters if each.required}
        names = {each.name for each in spec.parameters}
        for uuid, job in product(
            site.gpus if "uuid" in wanted else [None], jobs or {"none"} if "job" in names else [None]
        ):
            values = {**{name: given[name] for name in wanted if name in given}, "uuid": uuid, "job": job}
            said = {name: each for name, each in values.items() if each is not None}
            paths.append(f"/v1/query/{spec.name}?{urlencode(said, doseq=True)}")
            if "job" not in wanted:
                without = {name: each for name, each in said.items() if name != "job"}
                paths.append(f"/v1/query/{spec.name}?{urlencode(without, doseq=True)}")
    return sorted(set(paths))


def answers(site: Site, paths: list[str]) -> dict[str, list[str]]:
    """Which of the words each answer holds; an export, and what is asked of one job, may be refused."""
    found: dict[str, list[str]] = {}
    for path in paths:
        status, text = ask(site, path)
        refusable = path.startswith(("/v1/export", "/v1/jobs/", "/v1/consents?job="))
        is_degraded = path == "/healthz" and status == 503  # a busy machine; its text is searched too
        assert status == 200 or is_degraded or (refusable and status in (403, 404, 410)), (
            path,
            status,
            text[:300],
        )
        found[path] = sorted(each for each in SECRETS if each in text)
    return found


def ask(site: Site, path: str) -> tuple[int, str]:
    """The status and the text of an answer; of a stream what comes at once."""
    connection = UnixConnection(site.socket, 20)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        is_stream = "ndjson" in (answer.getheader("content-type") or "")
        return answer.status, (answer.readline() if is_stream else answer.read()).decode(errors="replace")
    finally:
        connection.close()
