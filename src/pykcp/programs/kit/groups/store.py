"""The store: a file in the root directory, or etcd; encryption at rest."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pykcp.programs.kit.checks import ca_bundle, key_pairs, loaded_by
from pykcp.programs.kit.flags import Flag, ignored
from pykcp.programs.kit.options import OptionGroup, option

if TYPE_CHECKING:
    from pykcp.storage.etcd import EtcdStore
    from pykcp.storage.interface import Store
    from pykcp.storage.progress import LogFollowers, LogProgress
    from pykcp.storage.sqlite.following import FollowingStore

EMBEDDED_ETCD: tuple[Flag, ...] = (
    ignored("embedded-etcd-directory"),
    ignored("embedded-etcd-client-port"),
    ignored("embedded-etcd-peer-port"),
    ignored("embedded-etcd-listen-metrics-urls", "strings", ()),
    ignored("embedded-etcd-wal-size-bytes"),
    ignored("embedded-etcd-quota-backend-bytes"),
    ignored("embedded-etcd-force-new-cluster", "bool", False),
)
ETCD_TUNING: tuple[Flag, ...] = (
    ignored("etcd-compaction-interval", "duration", 300.0),
    ignored("etcd-count-metric-poll-period", "duration", 60.0),
    ignored("etcd-db-metric-poll-interval", "duration", 30.0),
    ignored("etcd-healthcheck-timeout", "duration", 2.0),
    ignored("etcd-readycheck-timeout", "duration", 2.0),
    ignored("etcd-servers-overrides", "strings", ()),
    ignored("storage-backend"),
    ignored("storage-media-type", "string", "application/json"),
    ignored("storage-initialization-timeout", "duration", 60.0),
    ignored("lease-reuse-duration-seconds", "int", 60),
    ignored("watch-cache", "bool", True),
    ignored("watch-cache-sizes", "strings", ()),
)
FILE = "store.db"
"""The embedded store, in the root directory."""
EMBEDDED = "embedded"
"""kcp's own word in --etcd-servers for no etcd."""


def _has_etcd(flag: str, servers: tuple[str, ...]) -> Iterator[str]:
    if not servers:
        return
    from importlib.util import find_spec

    if find_spec("grpc") is None or find_spec("google.protobuf") is None:
        yield f'--{flag} needs an extra that is not installed: pip install "pykcp[etcd]"'


def _load_encryption(path: str) -> None:
    from pykcp.storage.encryption import load_config

    load_config(pathlib.Path(path))


class FollowedFile(NamedTuple):
    """A store that another process writes."""

    bare: FollowingStore
    """It takes the events of the log."""
    store: Store
    """The same as its users see it, without encryption."""


class EtcdOptions(OptionGroup):
    """Where etcd is, if a program stores its data there."""

    TITLE = "Storage"
    OTHER = (*ETCD_TUNING, *EMBEDDED_ETCD)

    etcd_servers: tuple[str, ...] = option(
        "etcd servers to store everything in; an embedded store in the root directory if not given.",
        (),
        check=_has_etcd,
    )
    etcd_prefix: str = option("Prefix of all keys in etcd.", "/registry")
    etcd_certfile: str = option("Client certificate (PEM) for etcd.", "")
    etcd_keyfile: str = option("Key of --etcd-certfile.", "")
    etcd_cafile: str = option("CA bundle (PEM) of etcd's servers.", "", check=ca_bundle)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from key_pairs("etcd-certfile", self.etcd_certfile, "etcd-keyfile", self.etcd_keyfile)

    def in_etcd(self, root: pathlib.Path, most_bytes: int = 0, part: str = "") -> EtcdStore:
        """The store in etcd, with a mirror in the root directory; not started.

        `part`: "" for the objects, or the name of another store beside them.
        """
        from pykcp.storage.etcd import EtcdSettings, EtcdStore

        suffix = f"-{part}" if part else ""
        return EtcdStore(
            EtcdSettings(
                servers=self.etcd_servers,
                prefix=self.etcd_prefix.rstrip("/") + suffix,
                certfile=self.etcd_certfile,
                keyfile=self.etcd_keyfile,
                cafile=self.etcd_cafile,
                mirror_path=root / f"etcd{suffix}-mirror.db",
                most_bytes=most_bytes,
            )
        )


class StoreOptions(EtcdOptions):
    consistent_reads: bool = option(
        "On etcd with several servers: answer a request only when this server has every write that any of them has acknowledged. Otherwise a read may miss writes of the last moments that another server has acknowledged. A server that is alone on its etcd does not wait in either case.",
        True,
        flag="etcd-consistent-reads",
    )
    store_size_limit: int = option(
        "Bytes that the store may hold, in the root directory or in etcd; above that only deletions and changes that do not add to it are accepted. 0 is no limit.",
        8 << 30,
    )
    encryption_provider_config: str = option(
        "File with an EncryptionConfiguration: which resources are encrypted at rest, and how.",
        "",
        check=loaded_by(_load_encryption),
    )
    encryption_provider_config_automatic_reload: bool = option(
        "Reload the encryption configuration when the file changes.", False
    )

    @property
    def is_encrypted(self) -> bool:
        return bool(self.encryption_provider_config)

    def make(self, root: pathlib.Path, followers: LogFollowers | None = None) -> Store:
        """The store, with encryption at rest if it is configured; not started."""
        return self._encrypted(self._bare(root, followers))

    def following(self, root: pathlib.Path, progress: LogProgress) -> FollowedFile:
        """The same on a file that another process of this machine writes."""
        from pykcp.storage.sqlite.following import FollowingStore

        bare = FollowingStore(root / FILE, progress)
        return FollowedFile(bare, self._encrypted(bare))

    def _encrypted(self, store: Store) -> Store:
        if not self.encryption_provider_config:
            return store
        from pykcp.storage.encryption import EncryptedStore, load_config

        return EncryptedStore(store, load_config(pathlib.Path(self.encryption_provider_config)))

    def _bare(self, root: pathlib.Path, followers: LogFollowers | None) -> Store:
        limit = max(0, self.store_size_limit)
        if self.etcd_servers:
            return self.in_etcd(root, limit)
        from pykcp.storage.sqlite import SQLiteStore
        from pykcp.storage.sqlite.store import SQLiteSettings

        made = SQLiteSettings(erases=self.is_encrypted, most_bytes=limit)
        return SQLiteStore(root / FILE, settings=made, followers=followers)
