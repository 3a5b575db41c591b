"""Where ``service.notify`` lay: a service of before an upgrade still calls its senders by these names."""
