"""The log of a version: finding the newest commit, and taking turns to add one."""
