"""What every decision reckons with: quotas and who holds them, places, speeds, what is owed. Pure."""
