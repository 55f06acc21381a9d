"""What hubarray promises as a whole, whichever modules keep it: docs/reliability.md names most of these."""
