"""Reading elements: the snapshot of an array, and the fetches of its chunks."""
