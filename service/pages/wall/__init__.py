"""The overview for a screen on a wall, which turns by itself and that nobody clicks."""
