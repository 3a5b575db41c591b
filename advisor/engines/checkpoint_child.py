"""A service of before an upgrade starts its child by this name, until it is started anew."""

import sys

from advisor.engines.cuda_checkpoint_child import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
