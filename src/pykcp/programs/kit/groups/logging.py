"""Logs: how much, and in which form."""

from __future__ import annotations

from pykcp.observe import logging as logs
from pykcp.programs.kit.checks import choice
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.options import OptionGroup, option


class LoggingOptions(OptionGroup):
    TITLE = "Logs"
    OTHER = (
        ignored("vmodule"),
        ignored("log-flush-frequency", "duration", 5.0),
        ignored("log-json-info-buffer-size"),
        ignored("log-json-split-stream", "bool", False),
        ignored("log-text-info-buffer-size"),
        ignored("log-text-split-stream", "bool", False),
    )

    verbosity: int = option(
        "Log verbosity: 0 logs warnings and errors, 2 is the default, 4 and more log debugging messages.",
        2,
        flag="v",
    )
    logging_format: str = option("Log format: text or json.", "text", check=choice("text", "json"))

    def set_up(self) -> None:
        logs.set_up(self.verbosity, self.logging_format)
