"""What can be configured, and how it is read: values with bounds, one TOML, flags, each with its origin."""
