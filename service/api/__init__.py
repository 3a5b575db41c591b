"""The HTTP door: named queries, imports, exports, metrics and health. Never SQL from outside."""
