"""Compiles the expressions of webhooks and policies when they are written.

What is compiled here is kept (by its text), so the first request that needs it does not wait.
"""

from __future__ import annotations

from pykcp.admission.expressions.compiling import compile_admission
from pykcp.admission.expressions.environment import NameVisibility
from pykcp.apis.kube.validation.rules import CelUse


def check_cel(expression: str, use: CelUse) -> str | None:
    """None, or what is wrong with the expression."""
    visibility = NameVisibility(use.has_params, use.has_authorizer, use.has_patch_types)
    # Match conditions are evaluated before variables are, so that they cannot use them.
    variables = None if use.purpose == "matchCondition" else use.variables
    compiled = compile_admission(expression, use.purpose, visibility, variables)
    return compiled.error or None
