"""What may stand in the name of a job or a project: one rule for ``fallow run`` and for the API. Pure.

Letters and digits of any language, and few signs: names stand in tables, addresses, files and command lines,
so nothing in them steers a terminal, hides, turns the direction of the text, or reads as a path or a flag.
They are kept composed (NFC, Unicode Standard Annex 15), so that two ways of writing one name are not two.
"""

import unicodedata
from dataclasses import dataclass

MEDIAL = "\u00b7\u05f3\u05f4\u0f0b\u30fb"
"""Signs within words of some languages: Unicode Standard Annex 31, table 3, without those that look like
others or cannot be seen."""
UNSEEN = (
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, 0x16FE4),
)
"""Letters and marks that show nothing: Default_Ignorable_Code_Point in the categories L and M; a filler."""
LETTERS = "letters and digits of any language or _"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How one kind of name is written; ``signs`` may stand after its first character."""

    what: str
    longest: int
    signs: str

    @property
    def asks(self) -> str:
        """What would do, for people."""
        signs = " ".join("spaces" if each == " " else each for each in self.signs)
        return f"1 to {self.longest} {LETTERS}, and after the first also {signs}"


NAME = Rule(what="a name", longest=100, signs=" .:+@=,()#-")
PROJECT = Rule(what="a project", longest=64, signs=".@+-")


def composed(text: str) -> str:
    """The text as it is kept and compared."""
    return unicodedata.normalize("NFC", text)


def objection(text: str, rule: Rule) -> str | None:
    """Why that cannot be such a name, and what would do; ``None``: it can. Quotes one character at most."""
    fault = _fault(text, rule)
    return None if fault is None else f"{rule.what} {fault}; {rule.asks} will do"


def as_project(name: str) -> str:
    """A person's name as the name of a project: itself, or with ``-`` for what a project cannot hold."""
    text = composed(name)
    if objection(text, PROJECT) is None:
        return text
    text_with_dashes = "".join(each if _may_follow(each, PROJECT) else "-" for each in text)
    begun = next((text_with_dashes[at:] for at, each in enumerate(text_with_dashes) if _may_begin(each)), "")
    return begun[: PROJECT.longest].rstrip("-") or "nameless"


def _fault(text: str, rule: Rule) -> str | None:
    if not text:
        return "cannot be empty"
    if len(text) > rule.longest or len(text := composed(text)) > rule.longest:
        return f"has {rule.longest} characters at most, not {len(text)}"
    if not _may_begin(text[0]):
        return f"cannot begin with {_character_name(text[0])}"
    wrong = next((each for each in text if not _may_follow(each, rule)), None)
    if wrong is not None:
        return f"cannot hold {_character_name(wrong)}"
    return "cannot end with a space" if text.endswith(" ") else None


def _may_begin(each: str) -> bool:
    kind = unicodedata.category(each)
    return each == "_" or ((kind[0] == "L" or kind == "Nd") and ord(each) not in UNSEEN)


def _may_follow(each: str, rule: Rule) -> bool:
    is_mark = unicodedata.category(each) in ("Mn", "Mc") and ord(each) not in UNSEEN
    return _may_begin(each) or is_mark or each in rule.signs or each in MEDIAL


def _character_name(each: str) -> str:
    """One character, so that people know which: itself where it can be seen, and its number and name."""
    name = unicodedata.name(each, "").lower() or _NAMELESS.get(unicodedata.category(each), "")
    number = f"U+{ord(each):04X}{', ' if name else ''}{name}"
    is_visible = each.isprintable() and each != " " and unicodedata.category(each)[0] not in "MZ"
    return f"'{each}' ({number})" if is_visible and ord(each) not in UNSEEN else number


_NAMELESS = {"Cc": "a control character", "Cs": "a byte that is no text"}
