"""Thin adapters between the one engine and the packages that people already use; imported when first asked for."""
