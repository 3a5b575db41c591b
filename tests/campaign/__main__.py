"""``python -m tests.campaign``: see ``play``."""

import sys

from tests.campaign.play import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
