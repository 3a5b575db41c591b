"""``python -m fallow.controller``: see ``main``."""

import sys

from fallow.controller.main import main

if __name__ == "__main__":
    sys.exit(main())
