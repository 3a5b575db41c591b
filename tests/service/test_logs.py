"""The log: one line an event, no name forges a line, a flood is counted, a stuck reader holds nobody up."""

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import logs
from service.logs import (
    KNOWN_CALLERS,
    LOG_FILE,
    SAME_A_MINUTE,
    SECURITY_FILE,
    JsonFormatter,
    Limiter,
    LogFormat,
    SecurityLog,
    TextFormatter,
    log_event,
    open_logs,
)

log = logging.getLogger("service.test_logs")


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Levels are the process's: they are put back."""
    names = ("", *logs.OURS)
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_an_event_is_one_line_with_its_fields(tmp_path: Path) -> None:
    out = io.StringIO()
    close = open_logs(out, LogFormat.TEXT, tmp_path)
    log_event(log, "job-started", job="fallow:3", gpus=2, share=None)
    log.error("the disk is gone")
    close()
    first, second = out.getvalue().splitlines()
    assert first.endswith(" info    job-started job=fallow:3 gpus=2")
    assert second.endswith(" error   service.test_logs: the disk is gone")


def test_json_has_the_same_fields_and_nothing_of_an_event_overwrites_them(tmp_path: Path) -> None:
    out = io.StringIO()
    close = open_logs(out, LogFormat.JSON, tmp_path)
    log_event(log, "job-started", job="fallow:3", gpus=2, level_of="x", time="forged")
    close()
    (row,) = map(json.loads, out.getvalue().splitlines())
    assert (row["event"], row["job"], row["gpus"], row["level"]) == ("job-started", "fallow:3", 2, "info")
    assert row["time"] != "forged"


@pytest.mark.parametrize("hostile", ["a\nb job=fallow:1", "\x1b[2J", "x\u202ey", "a b=c", '"', "\x85", ""])
@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_no_value_forges_a_line_or_a_field_or_speaks_to_a_terminal(
    formatter: logging.Formatter, hostile: str
) -> None:
    extra = {"event": "order", "fields": {"name": hostile, "job": "fallow:7"}}
    record = logging.LogRecord("service.x", logging.INFO, "", 0, "%s", ("order",), None)
    record.__dict__.update(extra)
    line = formatter.format(record)
    assert line.isascii() and line.isprintable()
    if isinstance(formatter, JsonFormatter):
        assert json.loads(line)["name"] == hostile
    else:
        assert line.endswith(" job=fallow:7")
        quoted = line.partition(" name=")[2].removesuffix(" job=fallow:7")
        assert (json.loads(quoted) if quoted.startswith('"') else quoted) == hostile
    message = logging.LogRecord("service.x", logging.ERROR, "", 0, "failed: %s", (hostile,), None)
    assert "\n" not in formatter.format(message) and "\x1b" not in formatter.format(message)


def test_security_events_are_kept_for_the_owner_alone_and_others_are_not(tmp_path: Path) -> None:
    close = open_logs(io.StringIO(), LogFormat.TEXT, tmp_path)
    log_event(log, "job-started", job="fallow:3")
    SecurityLog(lambda: 0.0).write("order-refused", "bo", path="/v1/jobs/fallow:3/cancel")
    close()
    file = tmp_path / SECURITY_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    (line,) = file.read_text().splitlines()
    assert line.endswith(" warning order-refused caller=bo path=/v1/jobs/fallow:3/cancel")


def test_a_log_in_a_file_leaves_warnings_alone_on_the_terminal(tmp_path: Path) -> None:
    out = io.StringIO()
    close = open_logs(out, LogFormat.TEXT, tmp_path, to_file=True)
    log_event(log, "job-started", job="fallow:3")
    log.warning("a source is silent")
    close()
    assert "job-started" not in out.getvalue() and "a source is silent" in out.getvalue()
    kept = (tmp_path / LOG_FILE).read_text()
    assert "job-started" in kept and "a source is silent" in kept


def test_a_flood_of_one_caller_is_counted_and_others_are_still_written() -> None:
    limiter = Limiter()
    written = [limiter.admit("refused", "bo", 1.0) for _ in range(3 * SAME_A_MINUTE)]
    assert written == [0] * SAME_A_MINUTE + [None] * 2 * SAME_A_MINUTE
    assert limiter.admit("refused", "ana", 1.0) == 0
    assert limiter.admit("refused", "bo", 61.0) == 2 * SAME_A_MINUTE
    assert limiter.admit("refused", "bo", 61.0) == 0


def test_callers_without_end_take_no_memory_without_end() -> None:
    limiter = Limiter()
    for n in range(2 * KNOWN_CALLERS):
        assert limiter.admit("refused", f"10.0.0.{n}", 1.0) == 0
    assert len(limiter._counts) == KNOWN_CALLERS


def test_a_reader_that_reads_nothing_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUED_LINES", 100)
    reading, writing = os.pipe()
    stuck = open(writing, "w", buffering=1)  # noqa: SIM115, PTH123  a pipe: it is closed below
    close = open_logs(stuck, LogFormat.TEXT, tmp_path)
    for _ in range(5_000):  # 64 KiB of pipe and 100 lines of queue are full long before
        log_event(log, "job-started", job="fallow:3", reason="x" * 80)
    text = []
    reader = threading.Thread(target=lambda: text.append(Path(f"/dev/fd/{reading}").read_text()), daemon=True)
    reader.start()
    while logging.getLogger().handlers[-1].queue.qsize():  # type: ignore[attr-defined]
        pass
    log_event(log, "job-ended", job="fallow:3")
    close()
    stuck.close()
    reader.join(30)
    os.close(reading)
    lines = text[0].splitlines()
    assert lines[-2].endswith("job-ended job=fallow:3") and "lines of this log were left out" in lines[-1]


def test_a_security_log_that_cannot_be_written_is_said_and_the_rest_is_written(tmp_path: Path) -> None:
    (tmp_path / SECURITY_FILE).mkdir()
    out = io.StringIO()
    close = open_logs(out, LogFormat.TEXT, tmp_path)
    SecurityLog(lambda: 0.0).write("order-refused", "bo")
    close()
    said, refused = out.getvalue().splitlines()
    assert "stands in this log alone" in said
    assert refused.endswith("order-refused caller=bo")


def test_a_reader_that_has_stopped_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "QUEUED_LINES", 10)
    monkeypatch.setattr(logs, "END_S", 0.05)
    reading, writing = os.pipe()
    ended = threading.Event()
    close = open_logs(os.fdopen(writing, "w", buffering=1), LogFormat.TEXT, tmp_path)
    for _ in range(1_000):
        log_event(log, "job-started", reason="x" * 200)
    threading.Thread(target=lambda: (close(), ended.set()), daemon=True).start()
    assert ended.wait(30), "the end waits for a reader that does not read"
    monkeypatch.setattr(logging, "raiseExceptions", False)
    os.close(reading)
