"""The ``fallow`` command: a noun a file, loaded when one of its verbs is called, so that each starts fast."""

import sys
from collections.abc import Sequence

from service.errors import FallowError

TROUBLE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; its exit status: 0 done, 1 what a verb says of its own, 2 trouble, 130 interrupted."""
    try:
        return _run(argv)
    except KeyboardInterrupt:
        pass
    except RuntimeError as error:
        from service.store.answer import INTERRUPTED as QUERY_INTERRUPTED

        if str(error) != QUERY_INTERRUPTED:
            raise
    print(file=sys.stderr)
    return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    from service.cli import left_behind
    from service.cli.parser import parse
    from service.cli.refusals import in_words
    from service.cli.streams import forgive_signs, open_closed, quiet_stdout
    from service.printable import in_lines

    open_closed()
    forgive_signs()
    try:
        command = parse(argv)
        if (remark := left_behind.remark(command.flags)) is not None:
            print(f"fallow: {remark}", file=sys.stderr)
        status = command.run()
        sys.stdout.flush()
        return status
    except FallowError as trouble:
        print(f"fallow: {in_lines(str(trouble))}", file=sys.stderr)
        return TROUBLE
    except BrokenPipeError:
        quiet_stdout()
        return 0
    except OSError as error:
        refused = in_words(error)
        if refused is None:
            raise
        if error.filename is None:
            quiet_stdout()
        print(f"fallow: {in_lines(refused)}", file=sys.stderr)
        return TROUBLE
