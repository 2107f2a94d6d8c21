"""The store on etcd: etcd has the log, a local mirror in SQLite answers the reads."""

from pykcp.storage.etcd.settings import EtcdSettings
from pykcp.storage.etcd.store import EtcdStore

__all__ = ["EtcdSettings", "EtcdStore"]
