"""Writing tables: writers of partitions, appends and deduplication."""
