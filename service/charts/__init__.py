"""Charts that pages and reports share: each a function from a table to a specification. Pure."""
