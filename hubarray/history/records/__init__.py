"""The contents of a commit: its record, manifest and overlay."""
