"""The OpenAPI document as a page that needs nothing from elsewhere: no script, no fonts, no network.

FastAPI's own page loads its program from a content delivery network; machines with GPUs often see none.
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from service.api.roles import RULES

Tree = Mapping[str, Any]

STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882;--get:#2166ac;--post:#b35806}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{font:13px/1.4 ui-monospace,monospace}h1{font-weight:600}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:.4rem .8rem}
summary{cursor:pointer}summary code{font-weight:600}.get{color:var(--get)}.post{color:var(--post)}
.role{float:right;opacity:.7}table{border-collapse:collapse;width:100%;margin:.4rem 0}
td,th{text-align:left;border-bottom:1px solid var(--soft);padding:.2rem .6rem .2rem 0;vertical-align:top}
"""


def page(document: Tree) -> str:
    """The document for people."""
    info = document["info"]
    routes = "".join(
        _route(path, method, route, document)
        for path, methods in document["paths"].items()
        for method, route in methods.items()
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f"<p>{escape(info.get('description', ''))}</p>"
        "<p>For programs: <a href=openapi.json>openapi.json</a>.</p>"
        f"{routes}</html>"
    )


def _route(path: str, method: str, route: Tree, document: Tree) -> str:
    role = next(
        (role for (verb, rule), role in RULES.items() if (verb.lower(), _plain(rule)) == (method, path)), ""
    )
    parts = [
        f"<details><summary><code><span class={method}>{method.upper()}</span> {escape(path)}</code> "
        f"{escape(route.get('summary', ''))} <span class=role>{escape(role)}</span></summary>",
        _table("Parameters", _parameters(route)),
        _table("Body", _body(route, document)),
        _table("Answers", _answers(route, document)),
        "</details>",
    ]
    return "".join(parts)


def _plain(rule: str) -> str:
    return rule.replace(":path}", "}")


def _table(title: str, rows: Iterator[tuple[str, str]]) -> str:
    lines = "".join(f"<tr><td><code>{escape(name)}</code><td>{escape(about)}" for name, about in rows)
    return f"<table><tr><th colspan=2>{title}</th></tr>{lines}</table>" if lines else ""


def _parameters(route: Tree) -> Iterator[tuple[str, str]]:
    for each in route.get("parameters", ()):
        must = ", needed" if each.get("required") else ""
        yield each["name"], f"{_kind(each.get('schema', {}))} ({each['in']}{must})"


def _body(route: Tree, document: Tree) -> Iterator[tuple[str, str]]:
    content = route.get("requestBody", {}).get("content", {})
    for each in content.values():
        yield from _fields(_followed(each.get("schema", {}), document))


def _answers(route: Tree, document: Tree) -> Iterator[tuple[str, str]]:
    for status, answer in route.get("responses", {}).items():
        schemas = [each.get("schema", {}) for each in answer.get("content", {}).values()]
        names = ", ".join(name for schema in schemas for name, _ in _fields(_followed(schema, document)))
        yield status, f"{answer.get('description', '')}{': ' if names else ''}{names}"


def _followed(schema: Tree, document: Tree) -> Tree:
    """The schema that a reference names; of a list, its items'."""
    while True:
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        elif schema.get("type") == "array" and isinstance(schema.get("items"), Mapping):
            schema = schema["items"]
        else:
            return schema


def _fields(schema: Tree) -> Iterator[tuple[str, str]]:
    needed = set(schema.get("required", ()))
    for name, each in schema.get("properties", {}).items():
        yield name, _kind(each) + (", needed" if name in needed else "")


def _kind(schema: Tree) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    words = [str(schema.get("type", "anything"))]
    if "enum" in schema:
        words = [" | ".join(map(str, schema["enum"]))]
    if isinstance(schema.get("items"), Mapping) and schema["items"]:
        words.append(f"of {_kind(schema['items'])}")
    bounds = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "maxLength": "at most"}
    words += [f"{label} {schema[key]}" for key, label in bounds.items() if key in schema]
    if "default" in schema:
        words.append(f"(default {schema['default']!r})")
    return " ".join(words)
