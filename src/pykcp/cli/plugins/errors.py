"""What can go wrong in a plugin, in the words that users see."""

from __future__ import annotations


class PluginError(Exception):
    """A refusal; its text is what follows `Error: `."""


class Prefixed(PluginError):
    """An error with the words of whoever met it in front: `creating X: not found`."""

    def __init__(self, words: str, cause: Exception) -> None:
        super().__init__(f"{words}: {cause}")
        self.__cause__ = cause


class Unreachable(PluginError):
    """No connection could be made."""


class DeadlineExceeded(PluginError):
    def __init__(self) -> None:
        super().__init__("context deadline exceeded")


def root_cause(error: BaseException) -> BaseException:
    """The innermost error that was reported on the way."""
    while isinstance(error, Prefixed) and error.__cause__ is not None:
        error = error.__cause__
    return error
