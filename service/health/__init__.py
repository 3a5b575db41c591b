"""How the service and each of its components fare, as ``/healthz``, screens and alerts tell it."""
