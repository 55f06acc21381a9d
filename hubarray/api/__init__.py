"""The public functions of hubarray by topic, and the registry of kinds of versions."""
