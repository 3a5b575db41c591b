"""The configuration: checked at the door, every value with its origin, every mistake with its line."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from service.config.file import load, parse
from service.config.model import Config, ConfigError
from tests.service.conftest import fallow, verb


def test_default_then_file_then_flag_and_each_value_knows_which() -> None:
    text = '[api]\nport = 9000\n\n[collect]\ntick_s = 5\n[prices.per_gpu_hour]\n"NVIDIA A100-SXM4-80GB" = 2\n'
    found = parse(text, origin="fallow.toml", flags={"collect.tick_s": ("--tick", 2.5)})
    origins = {each.key: (each.value, each.origin) for each in found.settings}
    assert origins["api.port"] == (9000, "fallow.toml:2")
    assert origins["collect.tick_s"] == (2.5, "--tick")
    assert origins["api.host"] == ("127.0.0.1", "default")
    assert origins["prices.per_gpu_hour.NVIDIA A100-SXM4-80GB"] == (2.0, "fallow.toml:7")
    assert found.config.api.port == 9000
    assert found.config.prices.per_gpu_hour == {"NVIDIA A100-SXM4-80GB": 2.0}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[api]\nprot = 1", ("fallow.toml:2", "api.prot", "did you mean api.port?")),
        ("port = 9000", ("fallow.toml:1", "unknown key port", "did you mean api.port?")),
        ("[apy]\nport = 1", ("fallow.toml:1", "unknown key apy", "did you mean api?")),
        ("\n\n[collect]\ntick_s = 0", ("fallow.toml:4", "collect.tick_s", "1 to 300")),
        ("[collect]\ntick_s = nan", ("fallow.toml:2", "a number")),
        ("[api]\nport = true", ("fallow.toml:2", "api.port is a whole number, not True")),
        ('[api]\nport = "9000"', ("fallow.toml:2", "a whole number")),
        ("[api]\nport = 9000.5", ("fallow.toml:2", "a whole number")),
        ("api = 3", ("fallow.toml:1", "write [api]")),
        ('[prices.per_gpu_hour]\n"*" = -1', ("fallow.toml:2", "prices.per_gpu_hour.*", "0 to")),
        ("[projects]\nann = 3", ("projects.ann", "text in quotes")),
        ('[collect]\nsources = "nvml"', ("fallow.toml:2", "is a list")),
        ("[collect]\nsources = [1]", ("fallow.toml:2", "text in quotes")),
        ("[findings]\nrare_ratio = 0.6", ("fallow.toml:2", "findings.rare_ratio")),
        ("[api\n", ("not valid TOML", "line 1")),
        ("[collect]\ntick_s = " + "9" * 400, ("fallow.toml:2", "collect.tick_s is a number")),
        ("[api]\nport = " + "9" * 5000, ("not valid TOML",)),
        ("a = " + "[" * 5000, ("not valid TOML",)),
    ],
)
def test_mistake_is_named_with_its_place_and_what_would_do(text: str, says: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, origin="fallow.toml")
    assert all(each in str(error.value) for each in says), str(error.value)


def test_a_former_setting_is_read_and_has_no_effect() -> None:
    found = parse(
        "[findings]\nlow_ratio = 0.05\nidle_ratio = 0.01\nstale_ticks = 3.0\n", origin="fallow.toml"
    )
    assert found.remarks == (
        "fallow.toml:2: findings.low_ratio = 0.05 has no effect: it is 0.25 everywhere, so that findings "
        "and the ledger agree. Take the line out.",
    )
    assert found.config.findings.stale_ticks == 3.0
    assert "findings.low_ratio" not in {each.key for each in found.settings}


def test_dotted_and_quoted_keys_have_lines_too() -> None:
    found = parse('api.port = 9000\n"projects"."ann" = "vision"\n', origin="f.toml")
    origins = {each.key: each.origin for each in found.settings}
    assert (origins["api.port"], origins["projects.ann"]) == ("f.toml:1", "f.toml:2")


def test_missing_file_is_all_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "fallow.toml").config == Config()


def test_file_of_a_windows_editor_is_read_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "fallow.toml").write_bytes(b"\xef\xbb\xbf[api]\r\nport = 9000\r\n")
    found = load(tmp_path / "fallow.toml")
    assert found.config.api.port == 9000
    assert ("api.port", "fallow.toml:2") in {(each.key, each.origin) for each in found.settings}


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fallow.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        load(tmp_path / "fallow.toml")


def test_every_number_has_bounds_that_its_default_keeps() -> None:
    for path, item, value in numbers(Config(), ()):
        low, high = item.metadata.get("low"), item.metadata.get("high")
        assert low is not None or high is not None, f"{'.'.join(path)} has no bounds"
        assert (low is None or low <= value) and (high is None or value <= high), path


def test_verb_prints_what_is_in_force_and_from_where(tmp_path: Path) -> None:
    (tmp_path / "fallow.toml").write_text("[api]\nport = 9111\n")
    done = verb("config", "--tick", "5", "--json", data=tmp_path)
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    assert done.returncode == 0
    assert rows["api.port"] == (9111, "fallow.toml:2")
    assert rows["collect.tick_s"] == (5.0, "--tick")
    shown = verb("config", data=tmp_path).stdout
    assert "fallow.toml:2" in shown and "9111" in shown


def test_verb_refuses_a_broken_file_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "fallow.toml").write_text("[api]\nprot = 9111\n")
    for ask, name in ((verb, "config"), (fallow, "serve"), (verb, "doctor")):
        done = ask(name, data=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("fallow: fallow.toml:2: unknown key api.prot")


def test_verb_refuses_a_source_that_the_service_would(tmp_path: Path) -> None:
    (tmp_path / "fallow.toml").write_text('[collect]\nsources = ["nvlm"]\n')
    done = verb("config", data=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean nvml?" in done.stderr


def test_configuration_that_is_named_must_exist(tmp_path: Path) -> None:
    done = verb("config", "--config", str(tmp_path / "no.toml"), data=tmp_path)
    assert done.returncode == 2
    assert "there is no file" in done.stderr


def numbers(value: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any, float]]:
    found: list[tuple[tuple[str, ...], Any, float]] = []
    for item in fields(value):
        inner = getattr(value, item.name)
        if is_dataclass(inner):
            found += numbers(inner, (*path, item.name))
        elif isinstance(inner, int | float) and not isinstance(inner, bool):
            found.append(((*path, item.name), item, inner))
    return found
