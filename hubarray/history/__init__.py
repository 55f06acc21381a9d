"""Contents and history of a name: records, manifests, the log and commits."""
