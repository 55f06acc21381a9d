"""Reading rows: the plan of a read, its fetches, and the columns and rows that it returns."""
