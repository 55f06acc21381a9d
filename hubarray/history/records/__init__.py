"""What is in a commit: its record, manifest and overlay."""
