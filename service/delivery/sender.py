"""A service of before an upgrade sends by this name, until it is started anew."""

import sys

from service.notify.sender import main

if __name__ == "__main__":
    sys.exit(main())
