"""Admission policies in CEL: validating and mutating ones, their bindings and parameters."""
