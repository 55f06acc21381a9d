"""Files, folders and values of other packages become arrays, datasets and tables."""
