"""``fallow start-acting``: let Fallow act again, through the service or, where none runs, in its store."""

import argparse
from datetime import UTC, datetime

from service import data_folder as client_place
from service.cli.verb_stop_acting import whoami
from service.client.jobs import connect_acting
from service.config.flags import settle
from service.errors import ServiceDown


def run(flags: argparse.Namespace) -> int:
    """Start it, and say so."""
    try:
        connect_acting(flags.data).start_acting()
    except ServiceDown:
        if not client_place.store_file(client_place.data_dir(flags.data)).exists():
            raise
        _without_service(flags)
    print("Fallow acts again, as far as its modes let it; `fallow config` prints them.")
    return 0


def _without_service(flags: argparse.Namespace) -> None:
    from advisor.journal.kill_switch import KillSwitch
    from service.store.open import own_store

    settings = settle(flags)
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    with own_store(settings.data, settings.effective.config) as store:
        KillSwitch(store, settings.data).start(whoami(), now_ms)
