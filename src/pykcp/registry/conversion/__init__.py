"""Conversion between the versions of a kind."""
