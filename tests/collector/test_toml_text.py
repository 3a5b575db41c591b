"""TOML files that are written to hurt: each is refused with a sentence, and at once."""

import pytest

from collector.sources.replay.errors import BadMapping
from collector.sources.replay.mapping import parse_mapping
from collector.toml_text import MOST_CHARS, MOST_PARTS, BadToml, read_toml
from service.config.file import parse
from service.config.model import ConfigError

HOSTILE = {
    "lists in lists": ("a = " + "[" * 100_000, "too deep"),
    "tables in tables": ("a = " + "{a=" * 50_000, "too deep"),
    "a long key": (".".join("a" * 50_000) + " = 1", f"more than {MOST_PARTS} parts .at line 1"),
    "a long header": ("\n[" + " . ".join(["'a'"] * 50_000) + "]", "at line 2"),
    "a long inner key": ("a = {" + ".".join("a" * 50_000) + " = 1}", "parts"),
    "dots in a text": ('a = """\n' + ".".join("a" * 50_000) + '\n"""', "parts"),
    "digits": ("a = " + "9" * 5000, "4300 digits"),
    "a long number": ("a = [[" + "9" * 4000 + "]]", "more than 600 digits"),
    "a hexadecimal one": ("a = 0x" + "f" * 100_000, "more than 600 digits"),
    "a megabyte": ("# " + "x" * MOST_CHARS, "characters"),
    "a control character": ('a = "\0"', "Illegal character"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_with_a_sentence(kind: str) -> None:
    text, sentence = HOSTILE[kind]
    with pytest.raises(BadToml, match=sentence):
        read_toml(text)
    with pytest.raises(ConfigError, match=sentence) as refused:
        parse(text, origin="fallow.toml")
    assert len(str(refused.value)) < 1000
    with pytest.raises(BadMapping, match=sentence):
        parse_mapping(text, "a.toml")


def test_what_settings_hold_is_read() -> None:
    text = 'a.b.c = 9223372036854775807\n[t]\nx = [["10.0.0.1", "node1.example.org:9400"], {y = 1}]\n'
    assert read_toml(text)["a"]["b"]["c"] == 2**63 - 1


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "1e300", "1e10", "true"])
@pytest.mark.parametrize("key", ["width_s", "memory_total_gib"])
def test_a_number_of_no_recording_is_refused_by_its_mapping(key: str, value: str) -> None:
    with pytest.raises(BadMapping, match=f"{key} is .* a number above 0"):
        parse_mapping(f'{key} = {value}\ntime = {{column = "t"}}\ngpu = "g"\n[sample]\n', "a.toml")
