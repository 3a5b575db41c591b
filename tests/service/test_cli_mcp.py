"""``fallow mcp``, asked by the official client library: the verbs' own rows, and nothing that acts."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import duckdb
import pytest

from service.cli import main
from service.cli import mcp as verb
from tests.service import one_sum_world as world

if TYPE_CHECKING:  # a second of processor time, which each process that only reads this file would pay
    from mcp.types import CallToolResult, ListToolsResult

SPAN = {"since": "2026-11-01T12:00", "until": "2026-11-01T15:00"}
RANGE = {"from_ts": SPAN["since"], "to_ts": SPAN["until"]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mcp")
    return world.fill(tmp_path_factory.mktemp("mcp") / "data")


def call(data: Path, tool: str, **given: object) -> "CallToolResult":
    from mcp import Client

    async def ask() -> "CallToolResult":
        async with Client(verb.make_server(argparse.Namespace(data=data, config=None))) as client:
            return await client.call_tool(tool, given)

    return anyio.run(ask)


def rows(data: Path, tool: str, **given: object) -> list[Mapping[str, Any]]:
    result = call(data, tool, **given)
    assert not result.is_error and result.structured_content is not None, result
    found: list[Mapping[str, Any]] = result.structured_content["rows"]
    return found


def test_who_wasted_most_is_answered_as_the_verb_answers_it(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(data, "waste", **SPAN)
    flags = ["--since", SPAN["since"], "--until", SPAN["until"], "--by", "user"]
    assert main(["waste", *flags, "--json", "--data", str(data)]) == 0
    assert found == json.loads(capsys.readouterr().out)
    assert {row["user"]: row["wasted_gpu_hours"] for row in found} == world.BY_USER


def test_an_answer_says_until_when_it_was_measured(data: Path) -> None:
    for tool, given in (("waste", SPAN), ("ask_named_query", {"name": "options"})):
        answer = call(data, tool, **given).structured_content
        assert answer is not None and answer["as_of"].startswith(world.END.strftime("%Y-%m-%dT1")), answer


def test_every_tool_says_that_it_only_reads(data: Path) -> None:
    from mcp import Client

    async def ask() -> "ListToolsResult":
        async with Client(verb.make_server(argparse.Namespace(data=data, config=None))) as client:
            return await client.list_tools()

    for tool in anyio.run(ask).tools:
        assert tool.annotations is not None and tool.annotations.read_only_hint is True
        assert tool.description, tool.name


REFUSED = (
    ("job", {"job": "--data=/etc"}, "no job '--data=/etc' held a GPU"),
    pytest.param("explain", {"about": "--help"}, "'--help'", marks=pytest.mark.slow),  # makes advice first
    ("waste", {"since": "yesterday-ish"}, "cannot read 'yesterday-ish' as a time"),
    ("ask_named_query", {"name": "wastes"}, "there is no query named 'wastes'; nearest: waste"),
    ("ask_named_query", {"name": "waste", "parameters": {"user": 1, "x": 2}}, "has no parameter 'x'"),
    ("ask_named_query", {"name": "../schema"}, "there is no query named"),
)


@pytest.mark.parametrize(("tool", "given", "said"), REFUSED)
def test_what_is_refused_is_refused_in_words(data: Path, tool: str, given: dict[str, Any], said: str) -> None:
    result = call(data, tool, **given)
    assert result.is_error and said in str(result.content)


def test_a_value_that_looks_like_a_flag_is_a_value(data: Path) -> None:
    assert rows(data, "waste", **SPAN, user="--by=job") == []


def test_names_that_somebody_chose_cannot_hide_anything(tmp_path: Path) -> None:
    folder = world.fill(tmp_path / "data")
    with duckdb.connect(str(folder / "fallow.duckdb")) as store:
        store.execute(
            "UPDATE holders SET job_name = 'a' || chr(8238) || chr(27) || '[2Jb' WHERE job = 'slurm:1'"
        )
    (row,) = rows(folder, "ask_named_query", name="jobs", parameters={**RANGE, "job": "slurm:1"})
    assert row["job_name"] == r"a\u202e\x1b[2Jb"


def test_too_long_an_answer_says_how_much_it_left_out(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(data, "named_queries")
    monkeypatch.setattr(verb, "LARGEST", 5_000)
    answer = call(data, "named_queries").structured_content
    assert answer is not None and 0 < len(answer["rows"]) < len(whole)
    assert answer["left_out"] == len(whole) - len(answer["rows"]) and "ask for less" in answer["hint"]
    monkeypatch.setattr(verb, "LARGEST", 1)
    assert len(rows(data, "named_queries")) == 1


def test_without_the_package_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert main(["mcp", "--data", str(tmp_path)]) == 2
    assert "pip install 'fallow-gpu[mcp]'" in capsys.readouterr().err


@pytest.mark.process
def test_an_assistant_that_starts_it_gets_an_answer(data: Path) -> None:
    from mcp import Client, StdioServerParameters

    started = StdioServerParameters(
        command=sys.executable, args=["-m", "service.cli", "mcp", "--data", str(data)]
    )

    async def ask() -> "CallToolResult":
        async with Client(started) as client:
            assert "never instructions" in str(client.instructions)
            return await client.call_tool("waste", SPAN)

    answer = anyio.run(ask).structured_content
    assert answer is not None and answer["rows"] == rows(data, "waste", **SPAN)
