"""Kubernetes' EncryptionConfiguration: from YAML to checked data. Pure.

All problems are reported together, with upstream's messages, which never contain a secret.
"""

from __future__ import annotations

import base64
import binascii
import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pykcp.machinery.status import FieldError, invalid, required
from pykcp.storage.encryption.errors import EncryptionConfigError

API_VERSIONS = ("apiserver.config.k8s.io/v1",)
_KIND = "EncryptionConfiguration"
_KEY_SIZES = {"aescbc": (16, 24, 32), "aesgcm": (16, 24, 32), "secretbox": (32,)}
_KINDS = ("kms", "aesgcm", "aescbc", "secretbox", "identity")
_WITHOUT_API = frozenset(("apiserveripinfo", "serviceipallocations", "servicenodeportallocations"))
_DEFAULT_KMS_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EncryptionProvider:
    """One element of `providers`: a kind with its keys, or the address of a KMS plugin."""

    kind: str
    keys: tuple[Key, ...] = ()
    name: str = ""
    endpoint: str = ""
    seconds: float = _DEFAULT_KMS_SECONDS


@dataclass(frozen=True, slots=True)
class ResourceRule:
    resources: tuple[str, ...]
    """`secrets`, `widgets.example.com`, `*.example.com`, `*.` (core) or `*.*`."""
    providers: tuple[EncryptionProvider, ...]


@dataclass(frozen=True, slots=True)
class EncryptionConfig:
    rules: tuple[ResourceRule, ...]


def load_config(path: pathlib.Path) -> EncryptionConfig:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise EncryptionConfigError(
            f"error reading encryption provider configuration file {str(path)!r}: {error}"
        ) from error
    try:
        return parse_config(text)
    except EncryptionConfigError as error:
        raise EncryptionConfigError(f"{path}: {error}") from error


def parse_config(text: str) -> EncryptionConfig:
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The text of the error may quote a secret: say only where it is.
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise EncryptionConfigError(
            f"error decoding encryption provider configuration file: not YAML{where}"
        ) from None
    if not isinstance(document, dict):
        raise EncryptionConfigError(
            "error decoding encryption provider configuration file: not an object"
        )
    if document.get("apiVersion") not in API_VERSIONS or document.get("kind") != _KIND:
        raise EncryptionConfigError(
            f"got unexpected config type: apiVersion {document.get('apiVersion')!r}, "
            f"kind {document.get('kind')!r}; expected {API_VERSIONS[0]}, {_KIND}"
        )
    reader = _Reader()
    rules = reader.rules(document.get("resources"))
    if reader.errors:
        texts = [error.text() for error in reader.errors]
        raise EncryptionConfigError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return EncryptionConfig(rules)


class _Reader:
    """Reads the document and collects what is wrong with it."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._kms_names: set[str] = set()

    def rules(self, value: Any) -> tuple[ResourceRule, ...]:
        if not value or not isinstance(value, list):
            self.errors.append(required("resources", "at least one resources is required"))
            return ()
        return tuple(self._rule(item, f"resources[{i}]") for i, item in enumerate(value))

    def _rule(self, value: Any, path: str) -> ResourceRule:
        value = value if isinstance(value, dict) else {}
        unknown = sorted(set(value) - {"resources", "providers"})
        self.errors += [invalid(path, name, "unknown field") for name in unknown]
        names = [str(name) for name in value.get("resources") or ()]
        providers = value.get("providers") or ()
        at, from_ = f"{path}.resources", f"{path}.providers"
        if not names:
            self.errors.append(required(at, f"at least one {at} is required"))
        self.errors += _overlaps(names, at)
        self.errors += _bad_names(names, at)
        if not providers:
            self.errors.append(required(from_, f"at least one {from_} is required"))
        read = [self._provider(p, f"{from_}[{i}]") for i, p in enumerate(providers)]
        return ResourceRule(tuple(names), tuple(p for p in read if p is not None))

    def _provider(self, value: Any, path: str) -> EncryptionProvider | None:
        value = value if isinstance(value, dict) else {}
        self.errors += [
            invalid(path, str(name), "unknown provider")
            for name in sorted(map(str, value))
            if name not in _KINDS
        ]
        given = [kind for kind in _KINDS if kind in value]
        if not given:
            self.errors.append(
                invalid(path, "", "provider does not contain any of the expected providers: "
                        "KMS, AESGCM, AESCBC, Secretbox, Identity")
            )  # fmt: skip
            return None
        if len(given) > 1:
            self.errors.append(
                invalid(path, "", "more than one provider specified in a single element, "
                        "should split into different list elements")
            )  # fmt: skip
            return None
        (kind,) = given
        content = value[kind] or {}
        if kind == "identity":
            return EncryptionProvider(kind)
        if kind == "kms":
            return self._kms(content, f"{path}.kms")
        return EncryptionProvider(
            kind, self._keys(content.get("keys"), f"{path}.{kind}.keys", kind)
        )

    def _keys(self, value: Any, path: str, kind: str) -> tuple[Key, ...]:
        if not value:
            self.errors.append(required(path, "at least one keys is required"))
            return ()
        read = [self._key(item or {}, f"{path}[{i}]", kind) for i, item in enumerate(value)]
        return tuple(key for key in read if key is not None)

    def _key(self, value: Any, path: str, kind: str) -> Key | None:
        name, secret = str(value.get("name") or ""), str(value.get("secret") or "")
        if not name:
            self.errors.append(required(f"{path}.name", "name is a mandatory field for a key"))
        at = f"{path}.secret"
        if not secret:
            self.errors.append(required(at, "secret is a mandatory field for a key"))
            return None
        try:
            raw = base64.b64decode(secret, validate=True)
        except (binascii.Error, ValueError):
            self.errors.append(invalid(at, "REDACTED", "secrets must be base64 encoded"))
            return None
        sizes = _KEY_SIZES[kind]
        if len(raw) not in sizes:
            shown = " ".join(map(str, sizes))
            self.errors.append(
                invalid(at, "REDACTED", "secret is not of the expected length, "
                        f"got {len(raw)}, expected one of [{shown}]")
            )  # fmt: skip
            return None
        return Key(name, raw)

    def _kms(self, value: Any, path: str) -> EncryptionProvider | None:
        before = len(self.errors)
        name = str(value.get("name") or "")
        version = str(value.get("apiVersion") or "v1")
        self._check_kms(value, path, name, version)
        self._kms_names.add(name)
        seconds = _seconds(value.get("timeout"))
        if seconds is None or seconds <= 0:
            self.errors.append(
                invalid(
                    f"{path}.timeout", value.get("timeout"), "timeout should be a positive value"
                )
            )
        endpoint = str(value.get("endpoint") or "")
        self._check_endpoint(endpoint, f"{path}.endpoint")
        if len(self.errors) > before:
            return None
        return EncryptionProvider("kms", (), name, endpoint, seconds or _DEFAULT_KMS_SECONDS)

    def _check_kms(self, value: Any, path: str, name: str, version: str) -> None:
        if not name:
            self.errors.append(required(f"{path}.name", "name is a mandatory field for a provider"))
        if ":" in name:
            self.errors.append(
                invalid(f"{path}.name", name,
                        f"invalid KMS provider name {name}, must not contain ':'")
            )  # fmt: skip
        if name and name in self._kms_names:
            self.errors.append(
                invalid(f"{path}.name", name,
                        f"duplicate KMS provider name {name}, names must be unique")
            )  # fmt: skip
        if version == "v1":
            # Upstream has switched it off by default since 1.29.
            self.errors.append(
                invalid(f"{path}.apiVersion", version,
                        "KMSv1 is deprecated and not supported here: use apiVersion v2")
            )  # fmt: skip
        elif version != "v2":
            self.errors.append(
                invalid(f"{path}.apiVersion", version, "unsupported apiVersion apiVersion "
                        "for KMS provider, only v1 and v2 are supported")
            )  # fmt: skip
        elif "cachesize" in value:
            self.errors.append(
                invalid(f"{path}.cachesize", value["cachesize"],
                        "cachesize is not supported in v2")
            )  # fmt: skip

    def _check_endpoint(self, endpoint: str, path: str) -> None:
        if not endpoint:
            self.errors.append(invalid(path, "", "endpoint is a mandatory field for a kms"))
            return
        scheme = urlsplit(endpoint).scheme
        if scheme != "unix":
            self.errors.append(
                invalid(path, endpoint,
                        f'unsupported scheme "{scheme}" for KMS provider, only unix is supported')
            )  # fmt: skip


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def _seconds(value: Any) -> float | None:
    if value is None:
        return _DEFAULT_KMS_SECONDS
    match = _DURATION.fullmatch(str(value))
    return float(match[1]) * _UNITS[match[2]] if match else None


def split_resource(name: str) -> tuple[str, str]:
    """`widgets.example.com` → (`example.com`, `widgets`)."""
    resource, _, group = name.partition(".")
    return group, resource


def _overlaps(names: Sequence[str], path: str) -> list[FieldError]:
    parsed = [split_resource(name) for name in names]
    errors: list[FieldError] = []
    if len(set(parsed)) < len(parsed):
        message = "the same resource cannot be specified multiple times"
        errors.append(invalid(path, list(names), message))
    pairs = [(a, b) for i, a in enumerate(parsed) for j, b in enumerate(parsed) if i != j]
    if any(
        a != b and (a == ("*", "*") or (a[0] == b[0] and "*" in (a[1], b[1]))) for a, b in pairs
    ):
        errors.append(
            invalid(path, list(names), "using overlapping resources such as 'secrets' and '*.' in "
                    "the same resource list is not allowed as they will be masked")
        )  # fmt: skip
    return errors


def _bad_names(names: Sequence[str], path: str) -> list[FieldError]:
    problems = ((i, name, _bad_name(name)) for i, name in enumerate(names))
    return [invalid(f"{path}[{i}]", name, why) for i, name, why in problems if why]


def _bad_name(name: str) -> str:
    group, resource = split_resource(name)
    if name != name.lower():
        return "resource name should not contain capital letters"
    if name == "*":
        return (
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt "
            "all resources"
        )
    if name in _WITHOUT_API:
        return "resources which do not have REST API/s cannot be encrypted"
    if group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. "
            "Use 'events' instead in the config file"
        )
    if group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if group == "*" and resource != "*":
        return "encrypting the same resource across groups is not supported"
    return ""
