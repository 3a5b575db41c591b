"""The write side: what carries out an approved step, one engine for each kind of world."""
