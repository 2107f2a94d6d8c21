"""Following the file of an EncryptionConfiguration: a change takes effect without a restart."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import pathlib
import time

from pykcp.observe.metrics import Counter, Gauge
from pykcp.storage.encryption.config import load_config
from pykcp.storage.encryption.store import EncryptedStore
from pykcp.storage.errors import StoreError

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


class ConfigFollower:
    """Looks at the file now and then; a broken one is refused and the old rules stay."""

    def __init__(self, path: pathlib.Path, store: EncryptedStore) -> None:
        self._path = path
        self._store = store
        self._seen = self._fingerprint()
        self._last_success = time.time()
        self._reloads = Counter(
            "apiserver_encryption_config_controller_automatic_reloads_total",
            "Reloads of the encryption configuration, by result.",
            ("status",),
        )
        self.metrics = (
            self._reloads,
            Gauge(
                "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
                "Time of the last reload of the encryption configuration.",
                lambda: self._last_success,
            ),
        )

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> bool:
        """Take the file over if it has changed; True if that happened."""
        seen = self._fingerprint()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            await self._store.configure(load_config(self._path))
        except StoreError as error:
            self._reloads.add(("failure",))
            _log.error("the changed encryption configuration is invalid and was ignored: %s", error)
            return False
        self._reloads.add(("success",))
        self._last_success = time.time()
        _log.info("the encryption configuration was reloaded")
        return True

    def _fingerprint(self) -> str:
        try:
            return hashlib.sha256(self._path.read_bytes()).hexdigest()
        except OSError:
            return ""
