"""Errors caused by the user: reported in one line, without a traceback."""

from __future__ import annotations

from pykcp.auth.files import CredentialError
from pykcp.observe.audit.policy import PolicyError
from pykcp.storage.errors import StoreError


class SettingsError(Exception):
    """Settings that cannot be used; one problem per line."""


USER_ERRORS = (CredentialError, PolicyError, SettingsError, StoreError, OSError)
"""Files, addresses and stores that cannot be used: the message is for the user."""


def mistake_behind(error: Exception) -> Exception | None:
    """The user's mistake, or the state of the host, that an error comes from; None for a defect.

    A step of a start that writes an object has the API's answer: why is what the store said.
    """
    if isinstance(error, USER_ERRORS):
        return error
    return error.__cause__ if isinstance(error.__cause__, StoreError) else None


def described(error: Exception) -> str:
    """One line for the user."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(text.split())
