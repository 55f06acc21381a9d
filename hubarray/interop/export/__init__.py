"""Arrays, datasets and tables become files, and references to their chunks."""
