"""Looking after versions: collection, compaction, verification, repair and transfer."""
