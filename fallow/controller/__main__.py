"""``python -m fallow.controller``: see ``driving``."""

import sys

from fallow.controller.driving import main

if __name__ == "__main__":
    sys.exit(main())
