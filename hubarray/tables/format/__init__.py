"""How tables are stored: schemas, blocks, part files and their metadata."""
