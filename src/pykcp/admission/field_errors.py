"""Field errors in a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery.status import FieldError


def listed(errors: Sequence[FieldError]) -> str:
    """Errors as Go prints a list of them."""
    return f"[{' '.join(error.text() for error in errors)}]"


def aggregated(errors: Sequence[FieldError]) -> str:
    """Errors as Go prints an aggregate: one by itself, several in brackets, each once."""
    texts = list(dict.fromkeys(error.text() for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
