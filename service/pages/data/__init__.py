"""What pages draw: asked of the service and kept a while, and its answers as typed values."""
