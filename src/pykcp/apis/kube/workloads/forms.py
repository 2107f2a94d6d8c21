"""Objects of another form than their kind has."""

from __future__ import annotations

WRONG_FORM = (AttributeError, KeyError, TypeError, ValueError)
"""Raised by what reads fields of such an object. The checks of its kind reject it, but run later, and
the schema is not trusted: anyone may mark a definition as that of one of Kubernetes' kinds."""
