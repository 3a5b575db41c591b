"""What several pages are made of: what surrounds a page, and pieces of it."""
