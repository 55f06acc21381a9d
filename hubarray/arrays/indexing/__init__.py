"""From an index to chunk numbers and places in them."""
