"""``python -m service.pages APP [--OPTION ...]``: the dashboard's server, with its libraries loaded already.

``streamlit run APP`` loads them when somebody comes, and the first visitor waits for it. Options are
Streamlit's.
"""

import sys
from importlib import import_module

LOADED = ("altair", "pandas", "streamlit.delta_generator", "service.client", "service.pages.chart_heat")


def main() -> None:
    """Load what pages draw with, then serve the app; ends with the server."""
    from streamlit.web import cli

    for name in LOADED:
        import_module(name)
    sys.argv = ["streamlit", "run", *sys.argv[1:]]
    cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
