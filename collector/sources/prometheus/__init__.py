"""History from elsewhere into the store: months that were measured before Fallow came."""
