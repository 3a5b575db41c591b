"""dcgm-exporter, any version: its names, labels and units, read over HTTP into the house's own values."""
