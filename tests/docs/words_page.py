"""Writes docs/words.md from the vocabulary in the code.

python -m tests.docs.words_page > docs/words.md
"""

from collections.abc import Iterable

from analytics.vocabulary.actions import ACTIONS
from analytics.vocabulary.findings import KINDS
from analytics.vocabulary.states import STATES
from analytics.vocabulary.words import WORDS

HEAD = """# Words

Twelve words suffice to read everything that Fallow shows; below them are the names on its screens and in its
files. How each figure is computed: [numbers](numbers.md). This page is written from the code by
`python -m tests.docs.words_page`.
"""


def page() -> str:
    """The whole page."""
    states = ((state.label, f"`{state.key}`", state.meaning) for state in STATES)
    findings = ((words.title, f"`{kind}`", words.says) for kind, words in KINDS.items())
    actions = ((words.label, f"`{kind}`", words.says) for kind, words in ACTIONS.items())
    parts = (
        HEAD,
        table(("word", "means"), ((f"**{word}**", means) for word, means in WORDS.items())),
        "## What a GPU is doing\n\nEvery GPU is in exactly one state in each 30 seconds.\n",
        table(("on screens", "in files", "means"), states),
        "## What may be wrong\n\nScreens say what to do; [findings](findings.md) has the rules.\n",
        table(("on screens", "in files", "is"), findings),
        "## What can be done\n\nA site switches each on by itself: [act safely](act-safely.md).\n",
        table(("on screens", "in files", "is"), actions),
    )
    return "\n".join(parts)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = (head, ("---",) * len(head), *rows)
    return (
        "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
        .replace("| --- ", "|---")
        .replace("--- |", "---|")
    )


if __name__ == "__main__":
    print(page(), end="")
