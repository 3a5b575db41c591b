"""Sends one message with nothing kept anywhere, for a disk that is full: ``service.notify.direct``.

Address, title and text come as JSON on standard input; what went wrong is the output, empty when nothing did.
"""

import json
import os
import sys

from service.notify.sender import send_plain, spare_loopback


def main() -> int:
    """Send it; 0 when somebody took it."""
    spare_loopback(os.environ)
    given = json.load(sys.stdin)
    found = send_plain(given["address"], given["title"], given["text"])
    sys.stdout.write(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
