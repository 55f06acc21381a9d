"""The pandas index of a table: reading, joining and publishing it."""
