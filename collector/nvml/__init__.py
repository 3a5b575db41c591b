"""Where ``collector.sources.nvml`` lay: a service of before an upgrade calls its children by these names."""
