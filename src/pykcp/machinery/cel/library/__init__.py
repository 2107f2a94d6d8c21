"""The functions: for each overload id what it does.

`IMPLEMENTATIONS` is the union of all the modules here. A function gets plain values and
returns one, or raises EvalError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.library import (
    authorizer,
    conversion,
    extras,
    formats,
    lists,
    net,
    quantity,
    semver,
    strings,
    times,
    urls,
)

IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {
    **conversion.FUNCTIONS,
    **times.FUNCTIONS,
    **strings.FUNCTIONS,
    **lists.FUNCTIONS,
    **net.FUNCTIONS,
    **urls.FUNCTIONS,
    **quantity.FUNCTIONS,
    **semver.FUNCTIONS,
    **formats.FUNCTIONS,
    **authorizer.FUNCTIONS,
    **extras.FUNCTIONS,
}
