"""Who asks: the kernel's word on the Unix socket, a token's on TCP; nobody acts on another's job."""

import pytest

from collector.clock import SystemClock
from collector.inventory.holders import person_behind
from collector.model import NodeName, Process, ProcessKey
from service.api import tokens
from service.client import Forbidden, NotAllowed, UnknownJob
from service.control.interface import Role
from tests.service.api.conftest import ALICE, BOB, DAEMON, Door, as_uid, submission


def test_kernel_says_who_calls(door: Door) -> None:
    assert door.client().whoami().sent == {"name": "root", "uid": 0, "role": "operator"}
    assert as_uid(ALICE, lambda: door.client().whoami()) == {
        "name": f"uid-{ALICE}",
        "uid": ALICE,
        "role": "user",
    }
    assert as_uid(DAEMON, lambda: door.client().whoami())["role"] == "operator", "as api.operators says"


def test_who_asks_is_called_as_the_one_whose_processes_are_seen(door: Door) -> None:
    seen = Process(key=ProcessKey(node=NodeName("n"), pid=7, started_ms=1), uid=ALICE)
    assert as_uid(ALICE, lambda: door.client().whoami())["name"] == person_behind(seen)


def test_token_on_the_socket_lends_nobody_a_role(door: Door) -> None:
    headers = {"Authorization": f"Bearer {door.secrets['operator']}"}
    assert as_uid(ALICE, lambda: door.ask("GET", "/v1/whoami", **headers))[1]["role"] == "user"


@pytest.mark.parametrize("role", ["viewer", "user", "operator"])
def test_token_says_who_calls_over_tcp(door: Door, role: str) -> None:
    said = door.client(role).whoami()
    assert (said.name, said.role) == (f"the-{role}", role)


def test_own_token_of_the_service_is_its_own_user(door: Door) -> None:
    assert door.client("owner").whoami().sent == {"name": "root", "uid": 0, "role": "operator"}


def test_expired_token_is_told_so_and_not_who_it_was(door: Door) -> None:
    with pytest.raises(NotAllowed, match="has expired"):
        door.client("expired").whoami()


def test_revoked_token_ends_with_the_next_request(door: Door) -> None:
    now_ms = SystemClock().now_ms()
    made, secret = tokens.add(
        door.running.data, user="carol", role=Role.USER, span_ms=3_600_000, now_ms=now_ms
    )
    assert door.client(secret).whoami().name == "carol"
    tokens.revoke(door.running.data, made.id)
    with pytest.raises(NotAllowed, match="wrong, or was revoked"):
        door.client(secret).whoami()


def test_job_is_the_callers_whoever_else_is_named(door: Door) -> None:
    entry = as_uid(ALICE, lambda: door.client().submit(submission(nonce="mine")))
    assert (entry["submission"]["user"], entry["submission"]["uid"]) == (f"uid-{ALICE}", ALICE)
    status, said = door.ask("POST", "/v1/jobs", body=submission(user="alice", uid=0))
    assert (status, said["error"]) == (422, "bad-order")


@pytest.mark.parametrize("order", ["pause", "resume", "cancel", "resize", "keep"])
def test_nobody_orders_anything_of_somebody_elses_job(door: Door, order: str) -> None:
    job = as_uid(ALICE, lambda: door.client().submit(submission(nonce=f"order-{order}")))["job"]
    more = {"resize": {"gpus": 512}, "keep": {"hours": 4}}.get(order, {})
    asked = ("POST", f"/v1/jobs/{job}/{order}")
    assert as_uid(BOB, lambda: door.ask(*asked, body=more))[0] == 403
    assert door.ask(*asked, body=more, who="other")[0] == 403
    assert as_uid(BOB, lambda: door.client().job(job))["state"] == "pending", "seeing is for everybody"
    assert as_uid(ALICE, lambda: door.ask(*asked, body=more))[0] in (202, 409)


def test_nobody_listens_to_or_speaks_for_somebody_elses_launcher(door: Door) -> None:
    job = as_uid(ALICE, lambda: door.client().submit(submission(nonce="stream")))["job"]
    report = {"at_ms": 1, "launcher": {"node": "n", "pid": 2, "started_ms": 1}, "state": "ended"}
    assert as_uid(BOB, lambda: door.ask("GET", f"/v1/jobs/{job}/directives"))[0] == 403
    assert as_uid(BOB, lambda: door.ask("POST", f"/v1/jobs/{job}/reports", body=report))[0] == 403
    assert door.client().job(job).state == "pending"


def test_nobody_reads_the_secrets_in_somebody_elses_command(door: Door) -> None:
    command = ["python", "t.py", "--password", "hush-4711", "--lr", "1"]
    job = as_uid(ALICE, lambda: door.client().submit(submission(command=command, nonce="secret")))["job"]
    for who in (None, "viewer", "other"):
        ask = (
            (lambda path: as_uid(BOB, lambda: door.ask("GET", path)))
            if who is None
            else (lambda path, who=who: door.ask("GET", path, who=who))
        )
        for path in (f"/v1/jobs/{job}", "/v1/jobs"):
            status, said = ask(path)
            assert status == 200 and "hush-4711" not in str(said), (who, path)
            assert "***" in str(said)
    for path in (f"/v1/jobs/{job}", "/v1/jobs"):
        assert "hush-4711" in str(as_uid(ALICE, lambda path=path: door.ask("GET", path)))
        assert "hush-4711" in str(door.ask("GET", path, who="operator"))


def test_who_only_wants_to_look_is_taken_for_a_viewer(door: Door) -> None:
    looks = {"Fallow-Role": "viewer"}
    assert door.ask("GET", "/v1/whoami", who="operator", **looks)[1]["role"] == "viewer"
    assert door.ask("POST", "/v1/acting/stop", who="operator", body={}, **looks)[0] == 403
    more = {"Fallow-Role": "operator"}
    assert as_uid(ALICE, lambda: door.ask("GET", "/v1/whoami", **more))[1]["role"] == "user", "never for more"


def test_a_page_of_another_origin_is_not_answered(door: Door) -> None:
    assert door.ask("GET", "/v1/whoami", who="operator", Origin="http://evil.example")[0] == 403
    assert door.ask("GET", "/healthz", who="", Origin="null")[0] == 403


def test_operator_acts_on_everybodys_jobs(door: Door) -> None:
    job = as_uid(ALICE, lambda: door.client().submit(submission(nonce="operated")))["job"]
    assert as_uid(DAEMON, lambda: door.client().cancel(job, "made room"))["outcome"]
    assert door.client().job(job).state == "ended"


def test_same_nonce_of_two_people_is_two_jobs(door: Door) -> None:
    asked = submission(nonce="shared")
    jobs = {as_uid(uid, lambda: door.client().submit(asked))["job"] for uid in (ALICE, BOB)}
    assert len(jobs) == 2
    status, again = as_uid(ALICE, lambda: door.ask("POST", "/v1/jobs", body=submission(nonce="shared")))
    assert (status, again["job"] in jobs) == (200, True)


def test_unknown_job_is_an_error_that_says_where_to_look(door: Door) -> None:
    with pytest.raises(UnknownJob, match="fallow jobs"):
        door.client().job("fallow:424242")
    with pytest.raises(Forbidden):
        door.client("viewer").submit(submission())


def test_foreign_name_in_the_host_header_is_refused_on_tcp_alone(door: Door) -> None:
    evil = {"Host": "rebound.example:9475"}
    assert door.ask("GET", "/v1/whoami", who="operator", **evil)[0] == 421
    assert door.ask("POST", "/v1/acting/stop", who="operator", body={}, **evil)[0] == 421
    assert door.ask("GET", "/v1/whoami", **evil)[0] == 200, "no browser reaches a Unix socket"


def test_forwarding_headers_make_nobody_local(door: Door) -> None:
    forged = {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "root", "Forwarded": "for=unix:"}
    assert door.ask("GET", "/v1/whoami", who="", **forged)[0] == 401
