"""The identities of root's exports, by which kcp's own kinds are told from those of tenants.

The root shard reads them from its exports. Other shards have them in a ConfigMap of their own
`system:shard`, as in kcp: they serve kcp's kinds while root is away.
"""

from __future__ import annotations

from pykcp.machinery.kcp.clusters import ROOT, SYSTEM_SHARD
from pykcp.machinery.resources import API_EXPORTS, CONFIG_MAPS
from pykcp.registry.codec import decode
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.storage.interface import Store

CONFIG_MAP, NAMESPACE = "apiexport-identity-cache", "default"
_EXPORTS = f"{kind_prefix(API_EXPORTS)}{ROOT}/"
_CONFIG_MAP = object_key(kind_prefix(CONFIG_MAPS), SYSTEM_SHARD, NAMESPACE, CONFIG_MAP)


class RootIdentities:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: frozenset[str] | None = None

    def __contains__(self, identity: str) -> bool:
        if self._known is None:
            self._known = frozenset(self._of_exports() or self._of_config_map()) - {""}
        return identity in self._known

    def changed(self, key: str) -> None:
        """An object was written or deleted."""
        if key.startswith(_EXPORTS) or key == _CONFIG_MAP:
            self._known = None

    def _of_exports(self) -> list[str]:
        entries = [self._store.get(key) for key in self._store.keys(_EXPORTS)]
        return [
            (decode(entry.value).get("status") or {}).get("identityHash") or ""
            for entry in entries
            if entry is not None
        ]

    def _of_config_map(self) -> list[str]:
        entry = self._store.get(_CONFIG_MAP)
        return list((decode(entry.value).get("data") or {}).values()) if entry is not None else []
