"""What other kinds of advice are held against, for ``bench/gain.py``: measured tables, not true labels."""
