"""Data types, and the codecs that encode chunks of them."""
