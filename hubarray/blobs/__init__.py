"""Immutable bytes by reference: refs, packs, caches and the fetch engine."""
