"""What every decision stands on: limits, quotas, places, speeds, what may be disturbed. Pure."""
