"""What stands in the documentation: pages, blocks of code, commands and mentions of them, headings, links."""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
SHELL = "sh"
PROGRAMS = (
    "fallow",
    "python",
    "make",
    "torchrun",
    "pip",
    "pytest",
    "streamlit",
    "curl",
    "promtool",
    "git",
    "sudo",
    "systemctl",
    "journalctl",
    "tar",
    "cp",
    "mv",
    "rsync",
    "mkdir",
    "cmp",
    "export",
)
"""An indented line, or words between backticks, that begin with one of them are a command."""

_FENCE = re.compile(r"^ *```(\S*)\s*$")
_COMMENT = re.compile(r"\s+#\s.*$")
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
_ASSIGNED = re.compile(r"^(?:[A-Z_]+=\S+ +)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language (may be empty), its text, and the line of its first line."""

    page: Path
    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command as somebody would type it, its continuation lines joined, its comment taken off."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"

    @property
    def program(self) -> str:
        """The program's name, after assignments."""
        return _ASSIGNED.sub("", self.text).split()[0]


def pages() -> tuple[Path, ...]:
    """README, CONTRIBUTING, the examples' pages, all of docs but the decisions (they tell of their day)."""
    folders = (
        sorted((ROOT / "examples").rglob("README.md")),
        sorted((ROOT / "docs").glob("*.md")),
        sorted((ROOT / "docs" / "dev").glob("*.md")),
        sorted((ROOT / "docs" / "status").glob("*.md")),
    )
    own = (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    return (*own, *(page for folder in folders for page in folder))


def name_of(page: Path) -> str:
    """How a page is called in a test's id."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> tuple[Block, ...]:
    """Every fenced block of a page."""
    found: list[Block] = []
    open_at, language = 0, ""
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if open_at:
            text = dedent("\n".join(lines[open_at : number - 1]))  # a block in a list is indented
            found.append(Block(page=page, line=open_at + 1, language=language, text=text))
            open_at = 0
        else:
            open_at, language = number, fence[1]
    assert not open_at, f"{name_of(page)}:{open_at}: a block that nobody closes"
    return tuple(found)


def commands(page: Path) -> tuple[Command, ...]:
    """Every command of a page's shell blocks, in order."""
    return tuple(command for block in blocks(page) if block.language == SHELL for command in _commands(block))


def mentions(page: Path) -> tuple[Command, ...]:
    """Every command that is named between backticks in a page's prose and tables."""
    found = []
    for number, line in _prose(page):
        for span in _SPAN.findall(line):
            if _ASSIGNED.sub("", span).split()[:1] and _ASSIGNED.sub("", span).split()[0] in PROGRAMS:
                found.append(Command(page=page, line=number, text=span.replace("\\|", "|")))
    return tuple(found)


def unfenced(page: Path) -> tuple[Command, ...]:
    """Lines of indented blocks that look like commands: nobody would run them, so there must be none."""
    lines = _prose(page)
    return tuple(
        Command(page=page, line=number, text=line.strip())
        for number, line in lines
        if line.startswith("    ") and line.split() and line.split()[0] in (*PROGRAMS, "$")
    )


def links(page: Path) -> tuple[tuple[int, str], ...]:
    """(line, target) of every link and picture."""
    return tuple((number, target) for number, line in _prose(page) for target in _LINK.findall(line))


def anchors(page: Path) -> frozenset[str]:
    """What a link to a heading of this page may name, as GitHub makes it of the heading."""
    return frozenset(_anchor(line.lstrip("#")) for _, line in _prose(page) if re.match(r"#{1,6} ", line))


def _anchor(heading: str) -> str:
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def _commands(block: Block) -> list[Command]:
    found: list[Command] = []
    whole, began = "", block.line
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        began = began if whole else number
        whole += _COMMENT.sub("", f" {line}").strip() if not whole else f" {_COMMENT.sub('', line).strip()}"
        if whole.endswith("\\"):
            whole = whole.removesuffix("\\").rstrip()
            continue
        if whole and not whole.startswith("#"):
            found.append(Command(page=block.page, line=began, text=whole))
        whole = ""
    return found


def _prose(page: Path) -> list[tuple[int, str]]:
    """The numbered lines that stand in no fenced block."""
    inside, found = False, []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            found.append((number, line))
    return found
