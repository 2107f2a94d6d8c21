"""The local ciphers of an EncryptionConfiguration: bytes in, bytes out.

Formats are upstream's: aescbc is IV and padded text, aesgcm nonce and text with tag,
secretbox NaCl's. The sealed text contains the key of its row (`sealed`), so that a value
that was copied to another row is detected with all of them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Protocol

from pykcp.storage.encryption.errors import Unreadable

_SHORT = "the stored data was shorter than the required size"


class Cipher(Protocol):
    def seal(self, plain: bytes) -> bytes: ...

    def open(self, data: bytes) -> bytes:
        """Raises Unreadable."""


class AesGcm:
    """Authenticated; the nonce is random, so keys must be rotated (every 200,000 writes)."""

    _NONCE = 12

    def __init__(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aead = AESGCM(key)
        self._invalid = InvalidTag

    def seal(self, plain: bytes) -> bytes:
        nonce = os.urandom(self._NONCE)
        return nonce + self._aead.encrypt(nonce, plain, None)

    def open(self, data: bytes) -> bytes:
        if len(data) < self._NONCE + 16:
            raise Unreadable(_SHORT)
        try:
            return self._aead.decrypt(data[: self._NONCE], data[self._NONCE :], None)
        except self._invalid:
            raise Unreadable("cipher: message authentication failed") from None


class AesCbc:
    """As upstream has it: not authenticated, kept for data that exists."""

    _BLOCK = 16

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher as Machine
        from cryptography.hazmat.primitives.ciphers import algorithms, modes

        def machine(iv: bytes) -> Any:
            return Machine(algorithms.AES(key), modes.CBC(iv))

        self._machine = machine

    def seal(self, plain: bytes) -> bytes:
        padding = self._BLOCK - len(plain) % self._BLOCK
        iv = os.urandom(self._BLOCK)
        encryptor = self._machine(iv).encryptor()
        padded = plain + bytes((padding,)) * padding
        return iv + bytes(encryptor.update(padded)) + bytes(encryptor.finalize())

    def open(self, data: bytes) -> bytes:
        if len(data) < self._BLOCK:
            raise Unreadable(_SHORT)
        if len(data) % self._BLOCK:
            raise Unreadable("the stored data is not a multiple of the block size")
        decryptor = self._machine(data[: self._BLOCK]).decryptor()
        plain: bytes = decryptor.update(data[self._BLOCK :]) + decryptor.finalize()
        padding = plain[-1] if plain else 0
        if not 0 < padding <= self._BLOCK:
            raise Unreadable("invalid PKCS7 data (empty or not padded)")
        if plain[-padding:] != bytes((padding,)) * padding:
            raise Unreadable("invalid padding on input")
        return plain[:-padding]


class Secretbox:
    """XSalsa20 and Poly1305: libsodium's if PyNaCl is installed, otherwise our own (slower)."""

    _NONCE = 24
    _TAG = 16

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, plain: bytes) -> bytes:
        nonce = os.urandom(self._NONCE)
        return nonce + self._seal(nonce, plain)

    def open(self, data: bytes) -> bytes:
        if len(data) < self._NONCE + self._TAG:
            raise Unreadable(_SHORT)
        return self._open(data[: self._NONCE], data[self._NONCE :])

    def _seal(self, nonce: bytes, plain: bytes) -> bytes:
        from cryptography.hazmat.primitives.poly1305 import Poly1305

        from pykcp.storage.encryption.salsa import xor, xsalsa20_stream

        stream = xsalsa20_stream(self._key, nonce, 32 + len(plain))
        text = xor(plain, stream[32:])
        return Poly1305.generate_tag(stream[:32], text) + text

    def _open(self, nonce: bytes, data: bytes) -> bytes:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.poly1305 import Poly1305

        from pykcp.storage.encryption.salsa import xor, xsalsa20_stream

        tag, text = data[: self._TAG], data[self._TAG :]
        stream = xsalsa20_stream(self._key, nonce, 32 + len(text))
        try:
            Poly1305.verify_tag(stream[:32], text, tag)
        except InvalidSignature:
            raise Unreadable("the stored data is not authentic") from None
        return xor(text, stream[32:])


class SodiumSecretbox(Secretbox):
    """The same by libsodium, a hundred times faster."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._box = importlib.import_module("nacl.secret").SecretBox(key)
        self._invalid = importlib.import_module("nacl.exceptions").CryptoError

    def _seal(self, nonce: bytes, plain: bytes) -> bytes:
        return bytes(self._box.encrypt(plain, nonce).ciphertext)

    def _open(self, nonce: bytes, data: bytes) -> bytes:
        try:
            return bytes(self._box.decrypt(data, nonce))
        except self._invalid:
            raise Unreadable("the stored data is not authentic") from None


def secretbox(key: bytes) -> Secretbox:
    try:
        return SodiumSecretbox(key)
    except ImportError:
        return Secretbox(key)


CIPHERS: dict[str, Callable[[bytes], Cipher]] = {
    "aescbc": AesCbc,
    "aesgcm": AesGcm,
    "secretbox": secretbox,
}
