"""Where measurements come from: a folder a source; what several share lies beside them."""
