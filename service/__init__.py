"""The doors: command line, HTTP API, scheduler, pages. The only place where the organs meet."""
