"""Feature gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pykcp.programs.kit.features import GATES
from pykcp.programs.kit.flags import FlagError
from pykcp.programs.kit.options import OptionGroup, option


class FeatureOptions(OptionGroup):
    TITLE = "Features"

    feature_gates: Mapping[str, bool] = option(
        "Turn alpha and beta features on or off: name=true or name=false.", {}
    )

    @property
    def gates(self) -> frozenset[str]:
        """The features that were turned on."""
        return frozenset(name for name, is_on in self.feature_gates.items() if is_on)

    def with_given(self, given: Mapping[str, Any]) -> Self:
        chosen: dict[str, bool] = dict(self.feature_gates)
        problems = []
        for name, text in given.get("feature-gates", {}).items():
            if name not in GATES:
                problems.append(f"unrecognized feature gate: {name}")
            elif text.lower() not in ("true", "false"):
                problems.append(f"invalid value of {name}: {text}, must be true or false")
            else:
                chosen[name] = text.lower() == "true"
        if problems:
            raise FlagError("\n".join(problems))
        return self.replace(feature_gates=chosen)
