"""Petastorm's ``petastorm.etl``."""
