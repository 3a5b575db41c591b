"""From the names people give sources to sources that can be read, and the past of those that have one."""
