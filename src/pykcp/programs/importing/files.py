"""What is taken over from the root directories of a kcp, so that its clients go on working."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator, Sequence

import yaml

from pykcp.auth.tokens import load_verification_keys

_FILES = ("admin.kubeconfig", ".admin-token-store", "apiserver.crt", "apiserver.key", "sa.key")
_KUBECONFIG, _ACCOUNTS_KEY = _FILES[0], _FILES[-1]
_TOKENS = "imported-tokens.csv"
_KEYS = "imported-service-accounts.pem"
_KEPT_USERS = {"kcp-admin": "system:kcp:admin", "user": ""}
"""Users of kcp's kubeconfig whose tokens only its process knows, and their group."""


def take_files(sources: Sequence[str], root: pathlib.Path) -> Iterator[str]:
    """Copy keys, certificates and tokens; yields what the user has to know.

    `sources`: the root directories of the shards, the root shard's first; "" if it is not known.
    """
    if not sources[0]:
        yield "keys and certificates were not taken over (--from-root-directory): clients need new kubeconfigs"
    else:
        for name in _FILES:
            if (pathlib.Path(sources[0]) / name).is_file():
                shutil.copy2(pathlib.Path(sources[0]) / name, root / name)
    known = [pathlib.Path(source) for source in sources if source]
    lines = list(dict.fromkeys(line for source in known for line in _token_lines(source)))
    if lines:
        path = _write_private(root / _TOKENS, "".join(lines))
        yield f"kcp-admin's token of the old kubeconfig stays valid with --token-auth-file={path}"
    others = [pathlib.Path(source) for source in sources[1:] if source]
    keys = "".join(dict.fromkeys(key for source in others for key in _account_keys(source)))
    if keys:
        path = _write_private(root / _KEYS, keys)
        yield (
            "tokens of service accounts of the other shards stay valid with"
            f" --service-account-key-file={root / _ACCOUNTS_KEY} --service-account-key-file={path}"
        )


def _token_lines(source: pathlib.Path) -> Iterator[str]:
    """Of a token file."""
    config = yaml.safe_load((source / _KUBECONFIG).read_text()) or {}
    for entry in config.get("users") or ():
        token = (entry.get("user") or {}).get("token")
        if token and entry["name"] in _KEPT_USERS:
            yield f'{token},{entry["name"]},,"{_KEPT_USERS[entry["name"]]}"\n'


def _account_keys(source: pathlib.Path) -> Iterator[str]:
    """Public keys (PEM). Raises CredentialError."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    path = source / _ACCOUNTS_KEY
    if path.is_file():
        for found in load_verification_keys(path.read_bytes(), str(path)):
            yield found.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _write_private(path: pathlib.Path, text: str) -> pathlib.Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path
