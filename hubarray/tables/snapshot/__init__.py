"""One commit of a table, and the blocks that its rows are in."""
