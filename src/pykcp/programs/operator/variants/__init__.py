"""The four reference installations as manifests: `kcp up --variant NAME` begins with one."""

from __future__ import annotations

import pathlib
import string
from collections.abc import Iterator

from pykcp.auth.files import write_private

_HERE = pathlib.Path(__file__).parent
_LOCAL = {
    "api": "127.0.0.1",
    "api_internal": "127.0.0.1",
    "root": "127.0.0.1",
    "alpha": "127.0.0.2",
    "beta": "127.0.0.3",
}
"""Addresses of this machine in place of host names: each host of a variant has one."""
_NAMES = {"api_internal": "api-internal"}


def variant_names() -> list[str]:
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


def variant_manifests(name: str, domain: str = "") -> str:
    """The manifests of a variant, with the host names of a domain or addresses of this machine."""
    hosts = dict(_LOCAL)
    if domain:
        hosts = {key: f"{_NAMES.get(key, key)}.{domain}" for key in _LOCAL}
    text = (_HERE / f"{name}.yaml").read_text()
    return string.Template(text).substitute(hosts)


def write_variant(name: str, directory: pathlib.Path, domain: str = "") -> bool:
    """Whether the manifests were written; those that exist stay as they are."""
    if any(_manifests(directory)):
        return False
    write_private(directory / f"{name}.yaml", variant_manifests(name, domain).encode())
    return True


def _manifests(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    return directory.glob("*.y*ml") if directory.is_dir() else iter(())
