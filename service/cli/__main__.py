"""``python -m service.cli``: how ``fallow up`` starts its own verbs."""

import sys

from service.cli import main

sys.exit(main())
