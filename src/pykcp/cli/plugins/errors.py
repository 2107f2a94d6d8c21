"""Errors of the plugins, with the messages that users see."""

from __future__ import annotations


class PluginError(Exception):
    """An error; its text is printed after `Error: `."""


class Prefixed(PluginError):
    """An error with a prefix that says what failed: `creating X: not found`."""

    def __init__(self, words: str, cause: Exception) -> None:
        super().__init__(f"{words}: {cause}")
        self.__cause__ = cause


class Unreachable(PluginError):
    """No connection could be made."""


class DeadlineExceeded(PluginError):
    def __init__(self, waited_for: str = "") -> None:
        about = f": {waited_for}" if waited_for else ""
        super().__init__(f"context deadline exceeded{about}")


def root_cause(error: BaseException) -> BaseException:
    """The innermost of a chain of prefixed errors."""
    while isinstance(error, Prefixed) and error.__cause__ is not None:
        error = error.__cause__
    return error
