"""Recorded telemetry as a source: Fallow's own export, or any table whose columns a mapping names."""
