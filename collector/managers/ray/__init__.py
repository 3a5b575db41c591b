"""Ray, read through its dashboard's HTTP."""
