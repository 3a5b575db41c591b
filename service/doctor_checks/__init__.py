"""What ``fallow doctor`` looks at, and what it says of each."""
