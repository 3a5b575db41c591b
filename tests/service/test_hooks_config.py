"""``[hooks]``: what a site may write, and that a rule counts in a file of root's alone."""

import os
from pathlib import Path

import pytest

from service.config.file import load, parse
from service.config.hooks import hooks_of
from service.config.model import ConfigError

RULE = """
[hooks.notebooks]
namespaces = ["jupyter"]
tell = ["/usr/local/sbin/notebook-tell", "{namespace}", "{user}", "{message}"]
pause = ["/usr/local/sbin/notebook-stop", "{namespace}", "{pod}"]
resume = ["/usr/local/sbin/notebook-start", "{namespace}", "{pod}"]
idle_hours = 4
warnings = 2
message = "{user}, your notebook {job} has been idle for {idle}."

[modes]
reclaim = "auto"
"""


def test_a_rule_of_ten_lines_is_taken() -> None:
    (hook,) = hooks_of(parse(RULE, origin="f").config.hooks)
    assert (hook.name, hook.idle_s, hook.warnings, hook.namespaces) == (
        "notebooks",
        14_400,
        2,
        frozenset({"jupyter"}),
    )
    assert len([line for line in RULE.splitlines() if line]) == 10
    assert parse("", origin="f").config.hooks == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('pause = ["/a"]\nresume = ["/b"]', "names its namespaces, partitions or QOS"),
        ('qos = ["*"]\ntell = ["/a"]', "names no place"),
        ('namespaces = [""]\ntell = ["/a"]', "names no place"),
        ('namespaces = ["team-.*"]\ntell = ["/a"]', "names no place"),
        ('qos = ["q"]', "a hook has a command"),
        ('qos = ["q"]\npause = ["/a"]', "pause needs resume"),
        ('qos = ["q"]\nresume = ["/a"]\ntell = ["/b"]', "resume pause"),
        ('qos = ["q"]\ntell = ["/b"]\nidle_hours = 4', "when to pause"),
        ('qos = ["q"]\npause = ["/a"]\nresume = ["/b"]\nidle_hours = 0.5', "less than an hour"),
        ('qos = ["q"]\npause = ["/a", "{message}"]\nresume = ["/b"]', "pause: {message} is none of"),
        ('qos = ["q"]\ntell = ["/bin/sh", "-c", "mail {user}"]', "reads text as commands"),
        ('qos = ["q"]\ntell = ["mail", "{user}"]', "no absolute path"),
        ('qos = ["q"]\ntell = ["/a"]\nlimit_s = 0', "limit_s"),
        ('qos = ["q"]\ntell = ["/a"]\nstop = ["/b"]', "unknown key hooks.x.stop"),
        ('qos = ["q"]\ntell = ["/a"]\n[hooks.y]\nqos = ["q"]\ntell = ["/a"]', "both name q"),
    ],
)
def test_what_could_mean_more_than_was_written_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(f"[hooks.x]\n{text}", origin="f")


def test_a_hook_has_a_plain_name() -> None:
    with pytest.raises(ConfigError, match="no name of a hook"):
        parse('[hooks."a b"]\nqos = ["q"]\ntell = ["/a"]', origin="f")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_rule_stands_for_consent_in_roots_own_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fallow.toml"
    file.write_text(RULE)
    assert load(file).config.hooks["notebooks"].idle_hours == 4
    os.chown(file, 65534, 65534)
    # The account of the service itself: it may read its own file, and speaks for nobody else.
    monkeypatch.setattr("service.config.file.read_text", lambda path: path.read_text())
    with pytest.raises(ConfigError, match=r"hooks\.notebooks\.idle_hours stands for the consent of others"):
        load(file)
    file.write_text(RULE.replace("idle_hours = 4\n", ""))
    assert load(file).config.hooks["notebooks"].idle_hours == 0
