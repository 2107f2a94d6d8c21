"""The contracts of the whole system on one page.

Objects on the wire are plain dicts, decoded JSON and nothing else; typed
accessors live in `machinery.meta`. These aliases say which dict is meant.
"""

from __future__ import annotations

from typing import Any, TypeAlias

JSON: TypeAlias = Any
"""Anything JSON can say: None, bool, int, float, str, list or dict."""

Object: TypeAlias = dict[str, Any]
"""One API object (apiVersion, kind, metadata, …) or a part of one."""
