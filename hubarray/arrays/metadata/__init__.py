"""The description of an array in a record."""
