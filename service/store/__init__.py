"""The door to the store: who opens its file, and how a named query of it is answered."""
