"""Sealing and opening by an EncryptionConfiguration: the first provider writes, all read.

Each provider owns a prefix, `k8s:enc:<provider>:v1:<key>:`, by which its data is known
again. What begins with none of them is plain, and read only where `identity` is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from pykcp.machinery.status import go_quote
from pykcp.storage.encryption.ciphers import CIPHERS
from pykcp.storage.encryption.config import EncryptionConfig, EncryptionProvider, split_resource
from pykcp.storage.encryption.errors import EncryptionConfigError, Unreadable
from pykcp.storage.encryption.kms import KmsProvider
from pykcp.storage.encryption.sealed import ENVELOPE
from pykcp.storage.keys import TRASH

_WORDS = {"aescbc": "AES", "aesgcm": "AES", "secretbox": "Secretbox"}


class Opened(NamedTuple):
    plain: bytes
    is_stale: bool
    """It should be written again: another key or provider would be used today."""


class Transformer(Protocol):
    prefix: bytes

    def seal(self, plain: bytes) -> bytes: ...

    def open(self, data: bytes) -> Opened:
        """`data` without the prefix. Raises Unreadable or KeyPending."""


class KeyRing:
    """A local cipher with its keys; the first one seals."""

    def __init__(self, provider: EncryptionProvider) -> None:
        self.prefix = b"k8s:enc:%b:v1:" % provider.kind.encode()
        make = CIPHERS[provider.kind]
        self._keys = [(key.name.encode() + b":", make(key.secret)) for key in provider.keys]
        self._missing = (
            f"no matching key was found for the provided {_WORDS[provider.kind]} transformer"
        )

    def seal(self, plain: bytes) -> bytes:
        name, cipher = self._keys[0]
        return self.prefix + name + cipher.seal(plain)

    def open(self, data: bytes) -> Opened:
        failure: Unreadable | None = None
        for index, (name, cipher) in enumerate(self._keys):
            if data.startswith(name):
                try:
                    # Two keys may have the same name (the old secret below the new one).
                    return Opened(cipher.open(data[len(name) :]), is_stale=index > 0)
                except Unreadable as error:
                    failure = error
        raise failure or Unreadable(self._missing)


class Kms:
    def __init__(self, provider: KmsProvider) -> None:
        self.prefix = b"k8s:enc:kms:v2:%b:" % provider.name.encode()
        self.provider = provider

    def seal(self, plain: bytes) -> bytes:
        return self.prefix + self.provider.seal(plain)

    def open(self, data: bytes) -> Opened:
        return Opened(self.provider.open(data), is_stale=self.provider.is_stale(data))


class ResourceTransformers:
    """The providers of one rule, in order. None in `chain` stands for `identity`."""

    def __init__(self, chain: Sequence[Transformer | None]) -> None:
        self._chain = tuple(chain)
        self.reads_plain = None in self._chain
        self.writes_plain = self._chain[0] is None

    def seal(self, plain: bytes) -> bytes:
        first = self._chain[0]
        assert first is not None  # asked only if `writes_plain` is false
        return first.seal(plain)

    def open(self, envelope: bytes) -> Opened:
        """A sealed value. Raises Unreadable or KeyPending."""
        failures: list[str] = []
        for index, transformer in enumerate(self._chain):
            if transformer is None or not envelope.startswith(transformer.prefix):
                continue
            try:
                opened = transformer.open(envelope[len(transformer.prefix) :])
            except Unreadable as error:
                failures.append(
                    str(error)
                )  # the same provider may be listed again, with other keys
                continue
            return Opened(opened.plain, opened.is_stale or index > 0)
        if failures:
            raise Unreadable("; ".join(dict.fromkeys(failures)))
        if self.reads_plain and envelope.startswith(ENVELOPE):
            raise Unreadable("identity transformer tried to read encrypted data")
        raise Unreadable("no matching prefix found")


MakeKms = Callable[[EncryptionProvider], KmsProvider]


class Transformers:
    """Which transformers a key has, by its group and resource."""

    def __init__(self, config: EncryptionConfig, make_kms: MakeKms) -> None:
        self.kms: list[KmsProvider] = []
        self._chains: dict[tuple[str, str], list[Transformer | None]] = {}
        """By group and resource, either of which may be `*`."""
        for rule in config.rules:
            providers = [self._make(p, make_kms) for p in rule.providers]
            for name in rule.resources:
                self._add(split_resource(name), providers)
        self._rules = {name: ResourceTransformers(chain) for name, chain in self._chains.items()}
        self._known: dict[str, ResourceTransformers | None] = {}
        self.prefixes = tuple(sorted(self._prefixes()))
        """What the keys of encrypted resources may begin with; nothing else is looked at."""

    def of(self, key: str) -> ResourceTransformers | None:
        """The transformers of a key's (or a prefix') resource; None: it is not encrypted."""
        if not key.startswith(self.prefixes):
            return None
        place = key.find("/", key.find("/") + 1)
        name = key if place < 0 else key[:place]
        try:
            return self._known[name]
        except KeyError:
            found = self._known[name] = self._find(name)
            return found

    def _find(self, name: str) -> ResourceTransformers | None:
        group, _, rest = name.removeprefix(TRASH).partition("/")
        resource = rest.partition(":")[0]
        group = "" if group == "core" else group
        rules = self._rules
        return rules.get((group, resource)) or rules.get((group, "*")) or rules.get(("*", "*"))

    def _add(self, name: tuple[str, str], providers: Sequence[Transformer | None]) -> None:
        """A rule that an earlier wildcard hides is a mistake; one for the same name adds to it."""
        group, _ = name
        for wildcard in ((group, "*"), ("*", "*")):
            if wildcard in self._chains and wildcard != name:
                raise EncryptionConfigError(
                    f"resource {go_quote(_shown(name))} is masked by earlier rule "
                    f"{go_quote(_shown(wildcard))}"
                )
        self._chains.setdefault(name, []).extend(providers)

    def _prefixes(self) -> Iterator[str]:
        for group, resource in self._rules:
            if group == "*":
                yield ""
                continue
            for stem in (group or "core", f"{TRASH}{group or 'core'}"):
                if resource == "*":
                    yield f"{stem}/"
                else:
                    yield f"{stem}/{resource}/"
                    yield f"{stem}/{resource}:"

    def _make(self, provider: EncryptionProvider, make_kms: MakeKms) -> Transformer | None:
        if provider.kind == "identity":
            return None
        if provider.kind == "kms":
            made = make_kms(provider)
            self.kms.append(made)
            return Kms(made)
        return KeyRing(provider)


def _shown(name: tuple[str, str]) -> str:
    group, resource = name
    if not group:
        return "*." if resource == "*" else resource
    return f"{resource}.{group}"
