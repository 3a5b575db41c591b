"""Reports that people read: who held, used and wasted what, as HTML, Markdown, CSV or JSON."""
