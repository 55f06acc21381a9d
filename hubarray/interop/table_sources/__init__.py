"""Sources that tables are imported from."""
