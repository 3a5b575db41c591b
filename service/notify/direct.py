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
    order = json.load(sys.stdin)
    problem = send_plain(order["address"], order["title"], order["text"])
    sys.stdout.write(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
