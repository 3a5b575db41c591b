"""``fallow completion``: what has a shell complete verbs and flags, written from the grammar itself."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote

from service.cli.parser import make_parser

BASH = """\
# source <(fallow completion bash)   in ~/.bashrc
_fallow() {{
  local words="{verbs}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _fallow fallow
"""
ZSH = """\
# source <(fallow completion zsh)   in ~/.zshrc, behind compinit
autoload -U +X bashcompinit && bashcompinit
"""
FISH_HEAD = "# fallow completion fish | source   in ~/.config/fish/config.fish\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbWords:
    """What can be typed behind a verb: its flags, and the words that its arguments may be."""

    about: str
    words: tuple[str, ...]


def run_completion(flags: argparse.Namespace) -> int:
    """Print the script."""
    print(script(flags.shell, grammar()), end="")
    return 0


def script(shell: str, verbs: Mapping[str, VerbWords]) -> str:
    """The script of a shell. Pure."""
    if shell == "fish":
        return FISH_HEAD + "".join(_fish(name, verb) for name, verb in verbs.items())
    cases = "\n".join(f'      {name}) words="{" ".join(verb.words)}" ;;' for name, verb in verbs.items())
    bash = BASH.format(verbs=" ".join((*verbs, "--help", "--version")), cases=cases)
    return ZSH + bash if shell == "zsh" else bash


def grammar() -> dict[str, VerbWords]:
    """Every verb as the parser knows it."""
    subparsers = next(each for each in make_parser()._actions if isinstance(each, argparse._SubParsersAction))
    about = {each.dest: each.help or "" for each in subparsers._get_subactions()}
    return {
        name: VerbWords(about=about[name], words=_words(verb)) for name, verb in subparsers.choices.items()
    }


def _words(verb: argparse.ArgumentParser) -> tuple[str, ...]:
    flags = [flag for each in verb._actions for flag in each.option_strings if flag.startswith("--")]
    orders = [
        str(choice) for each in verb._actions if not each.option_strings for choice in each.choices or ()
    ]
    return (*orders, *flags)


def _fish(name: str, verb: VerbWords) -> str:
    lines = [f"complete -c fallow -n __fish_use_subcommand -f -a {name} -d {quote(verb.about)}"]
    condition = f"'__fish_seen_subcommand_from {name}'"
    for option in verb.words:
        kind = f"-l {option.removeprefix('--')}" if option.startswith("--") else f"-a {option}"
        lines.append(f"complete -c fallow -n {condition} {kind}")
    return "\n".join(lines) + "\n"
