"""Parts of the benches about elastic training."""
