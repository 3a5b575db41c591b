"""Plays habits: files that say what people do on GPUs and what is right to say of them."""
