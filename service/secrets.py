"""Secrets that a configuration names: ``${NAME}``, a variable, and ``${file:PATH}``, a file's content."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from service.errors import FallowError

REFERENCE = re.compile(r"\$\{(?:file:)?[^}]+\}")


class NoSecret(FallowError):
    """A secret is not where the configuration says; the message names the place, never the content."""


def secret(reference: str, environment: Mapping[str, str] | None = None) -> str:
    """What ``reference``, a match of ``REFERENCE``, stands for; reads the file. Raises ``NoSecret``."""
    variables = os.environ if environment is None else environment
    name = reference[2:-1]
    if name.startswith("file:"):
        path = Path(name.removeprefix("file:")).expanduser()
        try:
            return path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise NoSecret(f"the secret in {path} cannot be read: {why}") from error
    if name not in variables:
        raise NoSecret(f"${name} is not in the service's environment")
    return variables[name]


def filled_in(text: str, environment: Mapping[str, str] | None = None) -> str:
    """``text`` with every reference replaced by its secret. Raises ``NoSecret``."""
    return REFERENCE.sub(lambda result: secret(result[0], environment), text)
