"""Those who use a service while it is measured."""
