"""Text that a spreadsheet would run as a formula, marked as text in CSV files, and read back as it was. Pure.

People choose the names of jobs, processes and machines, and who opens a table of them in a spreadsheet runs
what a cell begins with ``=`` says (CSV injection: OWASP). A leading apostrophe makes it text there; one more
is put before cells that would else be taken for marked ones, so that reading back is exact. A plain number
or percentage with its sign is none, and stays a number.
"""

import re

_BEGINS = (
    r"([\s']*[=@\x{FF1D}\x{FF20}]"
    r"|[\s']*[+\-\x{FF0B}\x{FF0D}][\d.,%\s]*[^\d.,%\s]"
    r"|'*[\t\r\n])"
)
"""What a formula begins with, full-width signs included, after blanks and marks; RE2, as Arrow reads it."""
FORMULA = f"^{_BEGINS}"
MARKED = f"^'{_BEGINS}"
"""The same with the mark before it."""
MARK = "'"

_FORMULA = re.compile(re.sub(r"\\x\{(....)\}", r"\\u\1", FORMULA), re.ASCII)


def as_text(text: str) -> str:
    """The text as a cell that no spreadsheet runs."""
    return MARK + text if _FORMULA.match(text) else text


def as_it_was(cell: str) -> str:
    """What ``as_text`` made a cell of."""
    return cell[1:] if cell[:1] == MARK and _FORMULA.match(cell[1:]) else cell
