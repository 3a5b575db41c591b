"""What each tick measured, pushed to a Prometheus, VictoriaMetrics, Mimir or Thanos that keeps it."""
