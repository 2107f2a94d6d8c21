"""What can go wrong between a value and its sealed form."""

from __future__ import annotations

from concurrent.futures import Future

from pykcp.storage.errors import StoreError


class EncryptionConfigError(StoreError):
    """An EncryptionConfiguration that cannot be used; the message names the file and field."""


class Unreadable(StoreError):
    """A stored value that none of the configured keys opens. It is left as it is."""

    is_told = True


class Unsealable(StoreError):
    """A value that cannot be sealed now, so it is not written at all."""

    is_told = True


class KeyPending(Exception):
    """A key that must first be fetched; try again when `answer` is there."""

    def __init__(self, answer: Future[bytes]) -> None:
        super().__init__("a key is being fetched")
        self.answer = answer
