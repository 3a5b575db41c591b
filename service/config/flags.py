"""From what was typed to what is in force: the DATA directory and the effective configuration."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from service import data_folder as client_place

if TYPE_CHECKING:
    from service.config.file import Effective

FLAG_KEYS = {
    "source": "collect.sources",
    "tick": "collect.tick_s",
    "host": "api.host",
    "port": "api.port",
    "head": "node.head",
    "dashboard_port": "dashboard.port",
    "allow_acting": "dashboard.acting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for one command."""

    data: Path
    effective: "Effective"

    def chosen(self, key: str) -> bool:
        """Whether somebody set this key, or it is the default."""
        return any(each.key == key and each.origin != "default" for each in self.effective.settings)


def settle(flags: argparse.Namespace) -> Settings:
    """Default, then file, then flag; reads the file. Raises ``ConfigError``."""
    from service.config.file import FILE_NAME, load
    from service.config.model import ConfigError

    data = client_place.data_dir(flags.data)
    if flags.config is not None and not flags.config.exists():
        raise ConfigError(f"there is no file {flags.config}; `fallow config` prints what a file may hold")
    values = {
        key: (f"--{name.replace('_', '-')}", getattr(flags, name))
        for name, key in FLAG_KEYS.items()
        if getattr(flags, name, None) is not None
    }
    return Settings(data=data, effective=load(flags.config or data / FILE_NAME, values))
