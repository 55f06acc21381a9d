"""The order of an epoch, and the place in it: pure arithmetic."""
