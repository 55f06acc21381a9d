"""Foreign values: what becomes elements, rows and attributes, and how they leave again."""
