"""Admission: what may change an object on its way in, and what may refuse it."""
