"""A written report as a page shows it: sealed, so that nothing in it runs or asks anybody anything. Pure.

A report of ours holds no script, but a site's own template, or whoever can write into the folder of reports,
may put one there; inside a page it would act as the page.
"""

import re

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; form-action 'none'; "
    "base-uri 'none'"
)
_TAG = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'


def sealed(html: str) -> str:
    """The page with a policy before everything else in it: it draws, and does nothing more.

    The policy stands before the document's own head: a parser opens a head for it, and no tag, attribute or
    comment of the document can come earlier.
    """
    return f"<!DOCTYPE html>{_TAG}{_DOCTYPE.sub('', html, count=1)}"


_DOCTYPE = re.compile(r"\A\s*<!doctype[^>]*>", re.IGNORECASE)
