"""Encryption at rest: values of chosen resources are sealed before any store sees them.

`EncryptedStore` wraps any store. `config` reads Kubernetes' EncryptionConfiguration,
`transformers` seals and opens by its rules, `ciphers` and `kms` are the providers,
`sealed` says what exactly is sealed, `reload` follows the configuration's file.
"""

from pykcp.storage.encryption.config import EncryptionConfig, load_config, parse_config
from pykcp.storage.encryption.errors import EncryptionConfigError, Unreadable
from pykcp.storage.encryption.store import EncryptedStore

__all__ = [
    "EncryptedStore",
    "EncryptionConfig",
    "EncryptionConfigError",
    "Unreadable",
    "load_config",
    "parse_config",
]
