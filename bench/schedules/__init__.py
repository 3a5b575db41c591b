"""What no schedule gets below, for ``bench/jct.py``."""
