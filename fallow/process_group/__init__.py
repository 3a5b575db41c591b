"""Who computes together now: the line to the controller, the group, and how state gets to who joins."""
