"""``python -m service.pages APP [--OPTION ...]``: the dashboard's server, with its pages loaded already.

``streamlit run APP`` loads them when somebody comes, and the first visitor waits for it; the overview's
charts are put together as well. Options are Streamlit's.
"""

import gc
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from runpy import run_path
from socket import IPPROTO_TCP, TCP_NODELAY, socket
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def main() -> None:
    """Load the app and what it draws with, then serve it; ends with the server."""
    from streamlit.web import bootstrap, cli

    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.exit("fallow: which app? write: python -m service.pages app.py [--server.port=PORT]")
    logging.disable(logging.WARNING)  # Streamlit's, of caches that are declared before its server runs
    from service.pages import overview
    from service.pages.parts import layout

    _stand_before_it()
    options = dict(cli.main_run.make_context("run", sys.argv[1:], resilient_parsing=True).params)
    del options["target"], options["args"]
    bootstrap.load_config_options(options)  # or the server finds, when it reads them, that they have changed
    run_path(sys.argv[1], run_name="loaded")
    overview.prepare()
    layout.rehearse()
    gc.collect()
    gc.freeze()  # Streamlit collects after every drawing: 0.1 s each, were all that is loaded looked at again
    logging.disable(logging.NOTSET)
    sys.argv = ["streamlit", "run", *sys.argv[1:]]
    cli.main(prog_name="streamlit")


P = ParamSpec("P")


def _stand_before_it() -> None:
    """Have Streamlit's server guarded, and send at once; what cannot be guarded is not started."""
    try:
        from streamlit.web.server.starlette import starlette_server

        module: Any = starlette_server
        module.create_starlette_app = behind_guard(module.create_starlette_app)
    except (ImportError, AttributeError):
        import streamlit

        sys.exit(
            f"fallow: the dashboard cannot be guarded in Streamlit {streamlit.__version__}: pages of other "
            "sites could read it; install the version that constraints.txt names"
        )
    with suppress(AttributeError):  # another Streamlit: slower, unbounded, and all there
        starlette_server._bind_socket = with_places(at_once(starlette_server._bind_socket))


def behind_guard(make: "Callable[P, ASGIApp]") -> "Callable[P, ASGIApp]":
    """``make``, whose application answers to known names and own pages alone, and draws in turns.

    ``service.pages.server.host_check``, ``service.pages.server.drawing_turns``.
    """
    from service.pages.server.drawing_turns import DrawingTurns
    from service.pages.server.host_check import guarded

    def made(*args: P.args, **named: P.kwargs) -> "ASGIApp":
        return guarded(DrawingTurns().around(make(*args, **named)))

    return made


def with_places(bind: Callable[P, socket]) -> Callable[P, socket]:
    """``bind``, whose socket accepts as many connections as there are places, and as one person may have."""
    from service.pages.server.connections import bounded

    def bound(*args: P.args, **named: P.kwargs) -> socket:
        return bounded(bind(*args, **named))

    return bound


def at_once(bind: Callable[P, socket]) -> Callable[P, socket]:
    """``bind``, whose connections send what is written without waiting for the other side's word.

    asyncio sees to that where a socket names its protocol, and Streamlit's (1.67) names none. Each answer but
    the first of a connection came 40 ms late: an acknowledgement may be delayed by so much, and the second
    part of an answer waits for that of the first (RFC 896, RFC 1122 4.2.3.2; docs/decisions/0020).
    """

    def bound(*args: P.args, **named: P.kwargs) -> socket:
        sock = bind(*args, **named)
        # Else each small file waits up to 40 ms for the acknowledgement of the one before
        # (docs/decisions/0020).
        sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)  # what it accepts inherits this
        return sock

    return bound


if __name__ == "__main__":
    main()
