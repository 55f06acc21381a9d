"""What a file or a folder is: rules that readers, ``import_`` and ``import_table`` share."""
