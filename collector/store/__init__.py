"""The one DuckDB file and its sealed days; the only importer of duckdb."""
