"""Understands: the ledger, the patterns and the findings, from what the collector stored."""
