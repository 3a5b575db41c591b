"""A foreground training announces when its GPU waits; a background job computes then and at no other time."""
