"""What is known of a cluster at one instant, as frozen values, and what an action makes of it. Pure."""
