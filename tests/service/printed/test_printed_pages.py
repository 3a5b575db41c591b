"""Every page of the dashboard over a store of hostile names, as Streamlit would send it to a browser."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from markdown_it import MarkdownIt
from streamlit.testing.v1 import AppTest

from service.pages.parts.charted import visible
from service.printable import on_a_line
from tests.service.printed.hostile import EVIL, HOSTILE, MARKER, PLAIN, fill

pytestmark = pytest.mark.slow

APP = Path(__file__).parents[3] / "app.py"
PAGES = {
    "overview": {},
    "cluster": {},
    "people": {},
    "jobs": {},
    "todo": {},
    "queue": {},
    "actions": {},
    "whatif": {},
    "reports": {},
    "settings": {},
    "gpu": {"gpu": str(EVIL)},
}
MARKDOWN = ("markdown", "caption", "header", "subheader", "title", "error", "warning", "info", "success")
LABELS = ("label", "help", "placeholder")
DIRECTIVE = re.compile(r"(?<!\\):(red|blue|green|material/\w+)(\[|:)")
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    fill(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FALLOW_DATA", str(folder))
        yield folder


def drawn(page: str) -> AppTest:
    """The page, as the address of it would draw it."""
    source = APP.read_text().replace(", default=True", "")
    made = re.sub(rf'("{page}")\)$', r"\1, default=True)", source, flags=re.MULTILINE)
    test = AppTest.from_string(made, default_timeout=120)
    for name, value in PAGES[page].items():
        test.query_params[name] = value
    return test.run()


def elements(block: Any) -> Iterator[Any]:
    for child in getattr(block, "children", {}).values():
        yield child
        yield from elements(child)


class Tags(HTMLParser):
    """The tags of a piece of HTML, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("page", PAGES)
def test_names_are_text_on_every_page(data: Path, page: str) -> None:
    test = drawn(page)
    assert [each.value for each in test.exception] == []
    seen = ""
    for each in elements(test._tree):
        proto = getattr(each, "proto", None)
        if each.type == "html":
            html_is_ours(str(each.value))
            seen += str(each.value)
        elif each.type in MARKDOWN:
            markdown_is_ours(str(each.value))
            seen += re.sub(r"\\(?=[^\w\s]|_)", "", str(each.value))
        for label in LABELS:
            if isinstance(text := getattr(proto, label, None), str) and text:
                markdown_is_ours(text)
    if page in ("overview", "people", "todo"):
        assert PLAIN in seen


@pytest.mark.parametrize("page", ["overview", "people", "cluster", "gpu"])
def test_names_in_charts_are_whole_visible_lines(data: Path, page: str) -> None:
    charts = [each.proto for each in elements(drawn(page)._tree) if each.type == "vega_lite_chart"]
    assert charts
    texts: list[str] = []
    for chart in charts:
        texts += list(_strings(json.loads(chart.spec)))
        for rows in chart.datasets:
            frame = pa.ipc.open_stream(rows.data.data).read_pandas()
            texts += [text for name in frame for text in frame[name] if isinstance(text, str)]
    assert any(MARKER in text for text in texts) or page == "overview"
    assert [text for text in texts if on_a_line(text, len(text) + 1) != text] == []


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _strings(each)
        case dict():
            for each in value.values():
                yield from _strings(each)


def html_is_ours(html: str) -> None:
    for tag, attributes in Tags(html).found:
        assert tag not in ("script", "iframe", "object", "embed", "form"), html
        if tag == "a":  # to a page of ours, whatever a job is called
            assert re.fullmatch(r"jobs\?[\w%+.=&~-]+", str(attributes.get("href"))), html
        assert not any(name.startswith("on") for name in attributes), html
        if tag == "img":
            assert str(attributes.get("src")).startswith("data:image/svg+xml"), html


def markdown_is_ours(text: str) -> None:
    """No link, no picture, no HTML, no directive; no line, heading or list item that a name began."""
    assert DIRECTIVE.search(text) is None, text
    for token in READER.parse(text):
        assert token.type not in ("html_block", "fence"), text
        for inner in token.children or ():
            assert inner.type not in ("image", "html_inline", "link_open"), text
            assert inner.type != "code_inline" or MARKER not in inner.content, text
            assert not re.search(r"http://|www\.evil", inner.content), text
            if inner.type == "text":
                assert not inner.content.lstrip().startswith(MARKER), text


def test_cells_of_a_table_are_whole_visible_lines() -> None:
    frame = pd.DataFrame({"name": [HOSTILE, PLAIN, None], "hours": [1.0, 2.0, None]})
    shown = visible(frame)
    assert shown["name"].iloc[0].isprintable() and shown["name"].iloc[1] == PLAIN
    assert shown["name"].isna().tolist() == [False, False, True]
    assert shown["hours"].equals(frame["hours"]) and frame["name"].iloc[0] == HOSTILE
