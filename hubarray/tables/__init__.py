"""Tables: rows of tensors in column groups, with an index that opens as a DataFrame."""
