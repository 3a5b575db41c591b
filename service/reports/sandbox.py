"""Templates in a sandbox: they read a report's values and nothing else, whoever wrote them.

Jinja's own sandbox keeps templates from Python's insides, but lets them call every public method of what they
are handed, and a chart's frame can write files. So an attribute is read only of values, of a report's parts,
and of what Jinja brings itself. A site's own templates are read as its configuration is: only where nobody
else could have put them.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import date, timedelta, tzinfo
from pathlib import Path

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, StrictUndefined, TemplateNotFound
from jinja2.loaders import split_template_path
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from service.printable import on_a_line
from service.reports import model
from service.trust.believed import read_text

VALUES = (str, int, float, tuple, list, Mapping, date, timedelta, tzinfo, type(None))
UNREAD = ("draw", "drawing", "key", "numbers")
"""Of a chart: Altair's drawing and the frame that it shows. ``picture`` draws it."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Where a report's templates are rendered."""

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Whether a template may read this; called by Jinja."""
        return super().is_safe_attribute(obj, attr, value) and _may_be_read(obj, attr)


class Trusted(BaseLoader):
    """Templates of a site's folder; ``Untrusted`` is raised where somebody else could have written one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        """The text and where it stands; called by Jinja."""
        path = self._folder.joinpath(*split_template_path(template))
        try:
            return read_text(path, "--templates"), str(path), None
        except (FileNotFoundError, NotADirectoryError) as error:
            raise TemplateNotFound(template) from error


def environment(site: Path | None, ours: Path, *, html: bool) -> Environment:
    """The sandbox with the templates of both folders, the site's before ours."""
    loaders: list[BaseLoader] = [] if site is None else [Trusted(site)]
    return Sandbox(
        loader=ChoiceLoader([*loaders, FileSystemLoader(ours)]),
        autoescape=html,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )


def _visible(value: object) -> object:
    """What an expression gives, names in it on one line that can be seen; our own markup as it is."""
    return on_a_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _may_be_read(obj: object, attr: str) -> bool:
    kind = type(obj)
    if kind.__module__.split(".")[0] in ("jinja2", "markupsafe"):
        return True
    if kind.__module__ == model.__name__ and is_dataclass(obj):
        return attr not in UNREAD or not isinstance(obj, model.Chart)
    return isinstance(obj, VALUES) and kind.__module__.split(".")[0] != "numpy"  # whose numbers write files
