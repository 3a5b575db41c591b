"""Every verb as a real process: what it prints on a terminal, in a pipe and as JSON, and how it fails."""

import errno
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

from service.cli import main
from service.cli.look_flags import LEDGER_KEYS
from service.cli.refusals import in_words
from service.doctor_checks.checks import disk
from service.doctor_checks.results import Verdict
from service.store.answer import answer
from tests.service.conftest import Running, fallow, until, verb

PYTHON = quote(sys.executable)
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
READING = [
    ["status"],
    ["findings", "--all"],
    ["alerts", "--all"],
    ["collect", "--once", "--source", "simulated"],
    ["doctor"],
    ["config"],
    *(["ledger", "--since", "2h", "--by", key] for key in ("state", "gpu", "job", "hour")),
]
LEDGERS = [["ledger", "--since", "2h", "--by", key] for key in LEDGER_KEYS]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_verb_prints_whole_plain_lines_in_a_pipe(service: Running, words: list[str]) -> None:
    done = fallow(*words, data=service.data)
    assert done.returncode in ((0, 1) if words == ["doctor"] else (0,)), done.stderr
    assert done.stdout.strip()
    assert "\x1b" not in done.stdout
    assert "…" not in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [*READING[:6], *LEDGERS], ids=" ".join)
def test_json_is_a_list_of_objects_with_the_same_keys(service: Running, words: list[str]) -> None:
    rows = json.loads(verb(*words, "--json", data=service.data).stdout)
    assert isinstance(rows, list)
    assert len({tuple(row) for row in rows}) <= 1
    assert rows or words[0] in ("findings", "alerts")
    assert not [key for row in rows for key in row if "percent" in key or key.endswith("_pct")]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_terminal_of_100_columns_holds_every_line(service: Running, words: list[str]) -> None:
    shown = on_terminal(*words, "--data", str(service.data), columns=100)
    assert b"Traceback" not in shown
    lines = ESCAPE.sub(b"", shown).decode().splitlines()
    assert lines
    assert [line for line in lines if len(line.rstrip()) > 100] == []


def test_ledger_by_state_adds_up_to_the_hardware(service: Running) -> None:
    rows = json.loads(verb("ledger", "--since", "6h", "--json", data=service.data).stdout)
    assert sum(row["gpu_hours"] for row in rows) == pytest.approx(4 * 6)
    assert sum(row["share_ratio"] for row in rows) == pytest.approx(1)
    assert sum(row["cost"] for row in rows) == pytest.approx(4 * 6 * 2.0)


def test_status_filters_by_what_the_gpus_are(service: Running) -> None:
    everything = json.loads(verb("status", "--json", data=service.data).stdout)
    node = everything[0]["node"]
    some = json.loads(verb("status", "--node", node, "--json", data=service.data).stdout)
    assert len(everything) == 4
    assert {row["node"] for row in some} == {node}


def test_status_keeps_showing_until_interrupted(service: Running) -> None:
    seen, status = watched(service.data)
    assert seen.count(b"given out") >= 3
    assert b"Traceback" not in seen
    assert status == 130


def test_output_that_nobody_reads_any_more_is_no_error(service: Running) -> None:
    command = f"{PYTHON} -m service.cli config --json --data {quote(str(service.data))} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[\n", "")


def test_a_table_that_nobody_reads_any_more_is_no_error_either(service: Running) -> None:
    data = quote(str(service.data))
    command = f"{PYTHON} -m service.cli config --data {data} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [["status"], ["ledger"], ["ledger", "--json"], ["doctor"]], ids=" ".join)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_terminal_that_lacks_our_signs_gets_others_for_them(
    service: Running, words: list[str], encoding: str
) -> None:
    done = fallow(*words, data=service.data, env={"PYTHONIOENCODING": encoding}, encoding=encoding)
    assert done.stderr == ""
    assert done.stdout
    assert "--json" not in words or json.loads(done.stdout)


@pytest.mark.parametrize("words", ["status", "status --json", "config --reference", "export --out {out}"])
def test_output_that_finds_no_room_is_one_message(service: Running, words: str, tmp_path: Path) -> None:
    asked, data = words.format(out=quote(str(tmp_path))), quote(str(service.data))
    command = f"{PYTHON} -m service.cli {asked} --data {data} >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("fallow: ") and "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words", ["status", "ledger", "doctor", "config", "serve", "token list", "stop-acting"]
)
def test_folder_that_the_system_refuses_is_one_message(words: str, tmp_path: Path) -> None:
    ask = fallow if words == "serve" else verb
    done = ask(*words.split(), data=tmp_path / ("a" * 300))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("fallow: ") and "File name too long" in done.stderr


@pytest.mark.parametrize("below", ["", "data"])
def test_doctor_says_that_a_file_is_where_the_folder_should_be(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    found = disk(tmp_path / "file" / below)
    assert (found.verdict, str(tmp_path / "file") in found.found) == (Verdict.TROUBLE, True)
    assert "--data" in found.advice


def test_folder_of_another_user_is_said_to_be_one() -> None:
    said = in_words(PermissionError(errno.EACCES, "Permission denied", "/srv/theirs/fallow.toml"))
    assert said is not None and said.startswith(
        "/srv/theirs/fallow.toml: Permission denied; it belongs to another"
    )
    assert in_words(OSError(errno.EBADF, "Bad file descriptor")) is None


def test_home_of_nobody_is_named() -> None:
    done = verb("status", "--data", "~no-such-user/data")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "~no-such-user/data" in done.stderr


def test_folder_that_was_removed_under_the_shell_is_named(tmp_path: Path) -> None:
    command = f"rmdir {quote(str(tmp_path))}; {PYTHON} -m service.cli status"
    path = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path, env=path
    )
    assert done.returncode == 2
    assert done.stderr.startswith("fallow: ") and "--data" in done.stderr


def test_ctrl_c_amid_a_query_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        raise RuntimeError("Query interrupted")  # as DuckDB says it

    monkeypatch.setattr("service.cli.status.run_status", interrupted)
    assert main(["status"]) == 130
    assert capsys.readouterr().err == "\n"


def test_ctrl_c_amid_a_named_query_ends_the_verb_and_is_no_failed_query() -> None:
    class Interrupted:
        def execute(self, *_: object) -> None:
            raise RuntimeError("Query interrupted")

    with pytest.raises(KeyboardInterrupt):
        answer(Interrupted(), "gpus_now", {})


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_export_writes_files_that_hold_what_is_stored(service: Running, kind: str, tmp_path: Path) -> None:
    done = verb(
        "export", "--format", kind, "--since", "1h", "--out", str(tmp_path / "out"), data=service.data
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"allocations.{kind}",
        f"gpus.{kind}",
        f"samples.{kind}",
    ]
    gpus = tmp_path / "out" / f"gpus.{kind}"
    assert rows_in(gpus) == 4
    until("the service keeps nothing of it", lambda: not list(service.data.glob(".sending-*")))


def test_export_taken_back_by_replay_has_the_same_gpus(service: Running, tmp_path: Path) -> None:
    verb("export", "--since", "1h", "--out", str(tmp_path), data=service.data)
    done = verb("collect", "--once", "--json", "--source", f"replay={tmp_path / 'samples.parquet'}")
    stored = json.loads(verb("status", "--json", data=service.data).stdout)
    assert done.returncode == 0, done.stderr
    assert {row["uuid"] for row in json.loads(done.stdout)} == {row["uuid"] for row in stored}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ledgr"], "did you mean ledger?"),
        (["ledger", "--since", "5x"], "cannot read '5x'"),
        (["ledger", "--since", "0001-01-01T00:00+14:00"], "lies outside the calendar"),
        (["ledger", "--by", "usr"], "did you mean user?"),
        (["status", "--every", "never", "--watch"], "cannot read 'never'"),
        (["status", "--json", "--watch"], "not allowed with"),
        (["ledger", "--since", "0001-01-01T00:00+05:00"], "outside the calendar"),
        (["ledger", "--since", "2026-11-21", "--until", "9999-12-31T23:59-05:00"], "outside the calendar"),
        (["collect"], "--once"),
        (["collect", "--once", "--source", "nvlm"], "did you mean nvml?"),
        (["collect", "--once", "--source", "replay=/no/such/file"], "there is no such file"),
        (["serve", "--port", "0"], "api.port"),
        (["serve", "--port", "many"], "invalid int value"),
        (["serve", "--tick", "0.1"], "collect.tick_s"),
        (["import", "prometheus"], "--url"),
        (["import", "influx", "--url", "x"], "prometheus"),
        (["export"], "--out"),
        (["status"], "no store in"),
        (["ledger"], "no store in"),
        (["findings"], "no store in"),
    ],
    ids=" ".join,
)
def test_expected_trouble_is_one_message_and_status_2(words: list[str], says: str, tmp_path: Path) -> None:
    ask = fallow if words[:1] == ["serve"] else verb
    done = ask(*words, env={"FALLOW_DATA": str(tmp_path / "none")})
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("fallow: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "none").exists() or words[0] in ("serve", "import"), "a reading verb makes nothing"


def test_named_service_that_does_not_answer_is_named(tmp_path: Path) -> None:
    done = fallow("status", env={"FALLOW_URL": "http://127.0.0.1:9", "FALLOW_TOKEN": "x"}, cwd=tmp_path)
    assert done.returncode == 2
    assert "http://127.0.0.1:9" in done.stderr


def test_wrong_token_is_said_with_where_the_right_one_stands(service: Running) -> None:
    done = verb("status", env={"FALLOW_TOKEN": "wrong"}, data=service.data)
    assert done.returncode == 2
    assert "DATA/token" in done.stderr


def test_store_is_read_directly_when_no_service_runs(service: Running, tmp_path: Path) -> None:
    """A copy of the running store, as a backup would be."""
    import shutil

    shutil.copytree(service.data, tmp_path / "copy", ignore=shutil.ignore_patterns("service.json", "*.sock"))
    done = verb("status", data=tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    assert "no service runs" in done.stdout
    assert len(json.loads(verb("status", "--json", data=tmp_path / "copy").stdout)) == 4


def test_version_and_help_are_quick_words_on_stdout() -> None:
    assert re.fullmatch(
        r"fallow \d+\.\d+\.\d+( \(commit [0-9a-f]{12}(-dirty)?\))?\n", fallow("--version").stdout
    )
    assert "ledger" in fallow("--help").stdout


def test_light_verbs_load_nothing_heavy() -> None:
    script = "import sys, service.cli.parser as a; a.parse(['ledger']); print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"duckdb", "pyarrow", "pandas", "fastapi", "streamlit", "rich", "numpy", "torch"} & set(loaded)


def rows_in(path: Path) -> int:
    if path.suffix == ".csv":
        return len(path.read_text().splitlines()) - 1
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def on_terminal(*words: str, columns: int) -> bytes:
    """What a verb shows on a real pseudo-terminal."""
    ours, theirs = pty.openpty()
    process = spawn(words, theirs, columns)
    shown = b""
    while piece := read(ours):
        shown += piece
    process.wait(timeout=30)
    os.close(ours)
    return shown


def watched(data: Path) -> tuple[bytes, int]:
    """What ``status --watch`` shows until Ctrl-C, pressed after its third picture; and its status."""
    ours, theirs = pty.openpty()
    process = spawn(("status", "--watch", "--every", "1s", "--data", str(data)), theirs, 100)
    seen = b""
    while seen.count(b"given out") < 3:
        piece = read(ours)
        assert piece, seen
        seen += piece
    os.write(ours, b"\x03")
    while piece := read(ours):
        seen += piece
    status = process.wait(timeout=30)
    os.close(ours)
    return seen, status


def spawn(words: tuple[str, ...], theirs: int, columns: int) -> "subprocess.Popen[bytes]":
    script = (
        "import fcntl, termios, struct, os, sys; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        f"fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 40, {columns}, 0, 0)); "
        "os.execv(sys.executable, [sys.executable, '-m', 'service.cli', *sys.argv[1:]])"
    )
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-c", script, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    return process


def read(terminal: int) -> bytes:
    """The next piece; nothing once the other side is gone."""
    ready, _, _ = select.select([terminal], [], [], 30)
    try:
        return os.read(terminal, 65_536) if ready else b""
    except OSError:
        return b""
