"""What the figures of a time come to, in words: the same on pages and in reports. Pure."""
