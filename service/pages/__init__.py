"""One file a dashboard page; every page is fed by ``service.client`` alone."""
