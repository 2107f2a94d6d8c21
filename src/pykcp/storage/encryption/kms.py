"""The KMS v2 provider: local data keys that are encrypted by the plugin's key.

A seed is generated here, encrypted by the plugin, and stored with every value that is
sealed with a key derived from it. The plugin is called when the process starts, when
its key changes (its status is polled), and once for every seed of an earlier process.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from concurrent.futures import Future
from typing import NamedTuple

from pykcp.caching import BoundedCache
from pykcp.storage.encryption import protowire as wire
from pykcp.storage.encryption.ciphers import AesGcm
from pykcp.storage.encryption.errors import KeyPending, Unreadable, Unsealable
from pykcp.storage.encryption.kms_client import Encrypted, KmsClient, KmsStatus
from pykcp.storage.interface import Clock

_SEED_BYTES = 32
_INFO_BYTES = 32
_DERIVED_SEED = 1
"""encryptedDEKSourceType HKDF_SHA256_XNONCE_AES_GCM_SEED, the only one that is written now."""
_VALID_SECONDS = 180.0
"""How long values are sealed with a data key whose plugin does not answer any more."""
_MOST_SEEDS = 1024
_MOST_KEY_ID = 1024


class DataKey(NamedTuple):
    seed: bytes
    source: Encrypted
    tail: bytes
    """Of an envelope: everything behind the sealed data."""


class KmsProvider:
    def __init__(self, client: KmsClient, clock: Clock = time.monotonic) -> None:
        self.name = client.name
        self.problem: str | None = "the KMS plugin has not been called yet"
        self._client = client
        self._clock = clock
        self._current: DataKey | None = None
        self._confirmed = 0.0
        self._seeds: BoundedCache[bytes, bytes] = BoundedCache("kms-seeds", _MOST_SEEDS)
        """Seeds by the digest of their encrypted form."""
        self._pending: dict[bytes, Future[bytes]] = {}
        self._tails: BoundedCache[bytes, tuple[bytes, str]] = BoundedCache("", _MOST_SEEDS)
        """Seed and key ID by all that stands behind the sealed data: the same for a data key."""

    def check_status(self, status: KmsStatus) -> bool:
        """Take note of the plugin's status; True if a new data key has to be made."""
        if status.healthz != "ok":
            raise Unreadable(f"got unexpected healthz status: {status.healthz}")
        if status.version not in ("v2", "v2beta1"):
            raise Unreadable(f"expected KMSv2 API version v2, got {status.version}")
        if not 0 < len(status.key_id.encode()) <= _MOST_KEY_ID:
            raise Unreadable("the key ID is empty or longer than 1 kB")
        if self._current is None or self._current.source.key_id != status.key_id:
            return True
        self._confirmed = self._clock()
        self.problem = None
        return False

    def refresh(self) -> None:
        """Ask the plugin how it is; blocking, for a thread. Its failure is kept in `problem`."""
        try:
            if self.check_status(self._client.status().result()):
                seed = os.urandom(_SEED_BYTES)
                self.adopt(seed, self._client.encrypt(seed).result())
        except Unreadable as error:
            self.problem = str(error)

    def adopt(self, seed: bytes, source: Encrypted) -> None:
        """Seal with this seed from now on."""
        if not source.ciphertext or len(source.ciphertext) > _MOST_KEY_ID:
            raise Unreadable("the encrypted data key is empty or longer than 1 kB")
        if not source.key_id:
            raise Unreadable("the key ID is empty")
        self._current = DataKey(seed, source, _tail(source))
        self._seeds.put(_digest(source), seed)
        self._confirmed = self._clock()
        self.problem = None

    def seal(self, plain: bytes) -> bytes:
        current = self._current
        if current is None:
            raise Unsealable(f"KMS provider {self.name!r} has no data key: {self.problem}")
        if self._clock() - self._confirmed > _VALID_SECONDS:
            raise Unsealable(f"the data key of KMS provider {self.name!r} expired: {self.problem}")
        info = os.urandom(_INFO_BYTES)
        sealed = AesGcm(_derive(current.seed, info)).seal(plain)
        return wire.put_bytes(1, info + sealed) + current.tail

    def open(self, data: bytes) -> bytes:
        """Raises Unreadable, or KeyPending if the plugin has to be asked first."""
        try:
            sealed, tail = _split(data)
            known = self._tails.get(tail)
            if known is None:
                known = self._learn(data, tail)
        except wire.MalformedProtobuf as error:
            raise Unreadable(f"the stored envelope is damaged: {error}") from None
        if len(sealed) < _INFO_BYTES:
            raise Unreadable("the stored envelope is of an unknown kind")
        return AesGcm(_derive(known[0], sealed[:_INFO_BYTES])).open(sealed[_INFO_BYTES:])

    def _learn(self, data: bytes, tail: bytes) -> tuple[bytes, str]:
        """The data key of an envelope that was not seen before, remembered."""
        fields = wire.read(data)
        if wire.get_number(fields, 5) != _DERIVED_SEED:
            raise Unreadable("the stored envelope is of an unknown kind")
        source = Encrypted(
            wire.get_bytes(fields, 3), wire.get_text(fields, 2), wire.get_map(fields, 4)
        )
        known = (self._seed(source), source.key_id)
        return self._tails.put(tail, known)

    def is_stale(self, data: bytes) -> bool:
        """Whether what was just opened is under another key of the KMS than the one in use."""
        current = self._current
        known = self._tails.get(_split(data)[1])
        return current is not None and known is not None and known[1] != current.source.key_id

    def close(self) -> None:
        self._client.close()

    def _seed(self, source: Encrypted) -> bytes:
        digest = _digest(source)
        seed = self._seeds.get(digest)
        if seed is not None:
            return seed
        answer = self._pending.get(digest)
        if answer is None:
            answer = self._pending[digest] = self._client.decrypt(source)
        if not answer.done():
            raise KeyPending(answer)
        self._pending.pop(digest, None)
        seed = answer.result()
        return self._seeds.put(digest, seed)


def _derive(seed: bytes, info: bytes) -> bytes:
    """HKDF's expansion to 32 bytes: one block of it."""
    return hmac.digest(seed, info + b"\x01", "sha256")


def _digest(source: Encrypted) -> bytes:
    """Identifies a data key: everything that the plugin needs to decrypt it."""
    shown = hashlib.sha256()
    for part in (source.ciphertext, source.key_id.encode(), wire.put_map(1, source.annotations)):
        shown.update(len(part).to_bytes(4, "big"))
        shown.update(part)
    return shown.digest()


def _tail(source: Encrypted) -> bytes:
    return (
        wire.put_bytes(2, source.key_id.encode())
        + wire.put_bytes(3, source.ciphertext)
        + wire.put_map(4, source.annotations)
        + wire.put_number(5, _DERIVED_SEED)
    )


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The sealed data, which comes first, and what stands behind it."""
    if data[:1] != b"\x0a":
        raise wire.MalformedProtobuf("no data")
    size, place = wire.get_varint(data, 1)
    end = place + size
    if end > len(data):
        raise wire.MalformedProtobuf("cut off")
    return data[place:end], data[end:]
