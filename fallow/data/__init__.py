"""What a step is made of: which samples, which worker computes them, and how they are read ahead of it."""
