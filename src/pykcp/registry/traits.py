"""How kinds differ in deletion, as a table."""

from __future__ import annotations

RETURNS_DELETED = frozenset({("", "namespaces"), ("", "serviceaccounts"), ("", "resourcequotas")})
"""DELETE answers with the object rather than with a Status."""

IGNORES_DEPENDENTS = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Propagation policies mean nothing for these."""
