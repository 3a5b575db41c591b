"""The ``fallow`` command: one file a verb, loaded only when it is called, so that each starts fast."""

import sys
from collections.abc import Sequence

from service.trouble import Trouble

TROUBLE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; its exit status: 0 done, 1 what a verb says of its own, 2 trouble, 130 interrupted."""
    from service.cli.arguments import parse
    from service.cli.streams import NO_ROOM, forgive_signs, open_closed, quiet_stdout

    open_closed()
    forgive_signs()
    try:
        status = parse(argv).run()
        sys.stdout.flush()
        return status
    except Trouble as trouble:
        print(f"fallow: {trouble}", file=sys.stderr)
        return TROUBLE
    except BrokenPipeError:
        quiet_stdout()
        return 0
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        quiet_stdout()
        print(f"fallow: {error}; free some room, and run it again", file=sys.stderr)
        return TROUBLE
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED
