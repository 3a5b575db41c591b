"""Lists that are cut say so, and what has ended takes nobody's place in them."""

import pytest

from service.cli.job_words import left_out
from service.client.jobs import Listed
from tests.service.api.conftest import Door, submission
from tests.service.conftest import verb


def test_a_job_that_waits_is_listed_however_many_ended_after_it(door: Door) -> None:
    client, project = door.client(), "ended-after"
    old = client.submit(submission(nonce="old", project=project)).job
    for number in range(4):
        client.cancel(client.submit(submission(nonce=f"e{number}", project=project)).job)
    assert [row.job for row in client.jobs(project=project, ended=False, limit=3)] == [old]
    listed = client.jobs_listed(project=project, limit=3)
    assert (len(listed.rows), listed.total) == (3, 5)
    done = verb("jobs", "--project", project, "--limit", "3", data=door.running.data)
    assert (done.returncode, done.stderr) == (0, "")
    assert old in done.stdout
    client.submit(submission(nonce="newer", project=project))
    done = verb("jobs", "--project", project, "--limit", "1", "--json", data=door.running.data)
    assert "1 more is not listed: --limit 2 shows them" in done.stderr
    done = verb("queue", "--limit", "1", data=door.running.data)
    assert "not listed" in done.stderr


@pytest.mark.parametrize(
    ("shown", "total", "said"),
    [
        (2, 2, None),
        (2, 1, None),
        (2, 7, "5 more are not listed: --limit 7 shows them, --user narrows them down"),
        (2, 12_000, "11998 more are not listed: --limit 10000 shows more, --user narrows them down"),
    ],
)
def test_what_a_list_leaves_out_is_said_with_how_to_see_it(shown: int, total: int, said: str | None) -> None:
    assert left_out(Listed(rows=[{}] * shown, total=total), "--user") == said
