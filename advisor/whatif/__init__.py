"""What each class of action would have given back over a site's own recorded past, and how sure that is."""
