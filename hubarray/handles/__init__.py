"""Arrays, datasets, tables and row loaders as users get them, with the methods that join them to other packages."""
