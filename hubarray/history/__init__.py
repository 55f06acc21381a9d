"""What a name contains and who changed it: records, manifests, the log and transactions."""
