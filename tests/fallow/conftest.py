"""Before torch is imported: its store logs a warning for every slice of a wait, which is no news here."""

import os

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # many workers share the machine
