"""What the answer of a cluster's `/readyz` says that may be shown to users of the workspace.

The address of a cluster is chosen by a tenant, so that nothing else of an answer is repeated: it
could come from a server that the tenant cannot reach.
"""

from __future__ import annotations

import re

_FAILED_CHECK = re.compile(rb"^\[-\]([a-zA-Z0-9][a-zA-Z0-9._/-]{0,62}) failed\b", re.MULTILINE)
_MOST_CHECKS = 8


def failure(status: int, body: bytes) -> str:
    """The status of the answer, with the names of the checks that failed."""
    checks = [name.decode() for name in _FAILED_CHECK.findall(body)[:_MOST_CHECKS]]
    text = f"GET /readyz: status {status}"
    return f"{text}, failed checks: {', '.join(checks)}" if checks else text
