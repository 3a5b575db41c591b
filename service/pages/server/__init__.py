"""Before the pages: who may connect to the dashboard, how often, and whose windows are drawn when."""
