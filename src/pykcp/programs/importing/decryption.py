"""Values that a kcp has encrypted in its etcd, with the keys of its EncryptionConfiguration.

A value begins with `k8s:enc:<provider>:v1:<name of the key>:`. AES-GCM also authenticates the key
of etcd that the value is stored under.
"""

from __future__ import annotations

import pathlib
import re

from pykcp.storage.encryption.ciphers import AesCbc, secretbox
from pykcp.storage.encryption.config import load_config
from pykcp.storage.encryption.errors import Unreadable

ENCRYPTED = b"k8s:enc:"
_PREFIX = re.compile(rb"k8s:enc:(?P<kind>[a-z]+):v\d:(?P<name>[^:]*):")
_NONCE = 12


class Decryption:
    """Opens values with the keys of all rules; without a file there are none."""

    def __init__(self, file: str = "") -> None:
        """Raises EncryptionConfigError for a file that is wrong."""
        rules = load_config(pathlib.Path(file)).rules if file else ()
        providers = [provider for rule in rules for provider in rule.providers]
        self._keys = {
            (provider.kind, key.name): key.secret for provider in providers for key in provider.keys
        }

    def plain(self, key: str, value: bytes) -> bytes:
        """A value as it was before it was encrypted, if it was. Raises ValueError."""
        if not value.startswith(ENCRYPTED):
            return value
        found = _PREFIX.match(value)
        kind = found["kind"].decode() if found else ""
        if found is None or kind == "kms":
            raise ValueError("it is encrypted by a KMS plugin: import by the API of kcp instead")
        name = found["name"].decode(errors="replace")
        secret = self._keys.get((kind, name))
        if secret is None:
            raise ValueError(
                f"it is encrypted with {kind} and the key {name!r}, which is not in "
                "--from-encryption-provider-config"
            )
        try:
            return _opened(kind, secret, key.encode(), value[found.end() :])
        except Unreadable as error:
            raise ValueError(f"the key {name!r} does not decrypt it: {error}") from error


def _opened(kind: str, secret: bytes, key: bytes, data: bytes) -> bytes:
    if kind == "aescbc":
        return AesCbc(secret).open(data)
    if kind == "secretbox":
        return secretbox(secret).open(data)
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(secret).decrypt(data[:_NONCE], data[_NONCE:], key)
    except (InvalidTag, ValueError):
        raise Unreadable("message authentication failed") from None
