"""Rules of what a file and a folder is, that readers, ``import_`` and ``import_table`` share."""
