"""Writing elements: assignments, transactions and their chunks."""
