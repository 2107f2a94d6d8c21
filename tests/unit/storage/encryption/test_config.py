"""EncryptionConfiguration: what is read, and what is refused in which words."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from pykcp.storage.encryption.config import parse_config
from pykcp.storage.encryption.errors import EncryptionConfigError

SECRET = base64.b64encode(bytes(32)).decode()
KEYS = {"keys": [{"name": "key1", "secret": SECRET}]}
IDENTITY: dict[str, Any] = {"identity": {}}
KMS = {"kms": {"apiVersion": "v2", "name": "vault", "endpoint": "unix:///run/kms.sock"}}


def document(*rules: tuple[list[str], list[dict[str, Any]]]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": names, "providers": given} for names, given in rules],
        }
    )


def test_reads_all_providers_in_order() -> None:
    kms = {"kms": {**KMS["kms"], "timeout": "500ms"}}
    providers: list[dict[str, Any]] = [
        {"aescbc": KEYS},
        {"aesgcm": KEYS},
        {"secretbox": KEYS},
        kms,
        IDENTITY,
    ]
    config = parse_config(document((["secrets", "widgets.example.com"], providers)))
    (rule,) = config.rules
    assert rule.resources == ("secrets", "widgets.example.com")
    assert [p.kind for p in rule.providers] == ["aescbc", "aesgcm", "secretbox", "kms", "identity"]
    assert rule.providers[0].keys[0].secret == bytes(32)
    assert rule.providers[3].seconds == 0.5
    assert rule.providers[3].endpoint == "unix:///run/kms.sock"


def test_a_secret_is_never_shown() -> None:
    config = parse_config(document((["secrets"], [{"aescbc": KEYS}])))
    assert "secret" not in repr(config.rules[0].providers[0].keys)
    broken = document((["secrets"], [{"aescbc": KEYS}])).replace(SECRET, f"{{{{: {SECRET}")
    with pytest.raises(EncryptionConfigError) as caught:
        parse_config(broken)
    assert SECRET not in str(caught.value)


MASKED = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not "
    "allowed as they will be masked"
)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "resources: Required value: at least one resources is required"),
        ([([], [IDENTITY])], "resources[0].resources: Required value: at least one"),
        ([(["secrets"], [])], "resources[0].providers: Required value: at least one"),
        ([(["*"], [IDENTITY])], "use '*.' to encrypt all the resources from core API group"),
        ([(["Secrets"], [IDENTITY])], "resource name should not contain capital letters"),
        ([(["secrets", "*."], [IDENTITY])], MASKED),
        ([(["*.*", "*.example.com"], [IDENTITY])], MASKED),
        ([(["secrets", "secrets"], [IDENTITY])], "cannot be specified multiple times"),
        ([(["deployments.extensions"], [IDENTITY])], "'extensions' group has been removed"),
        ([(["events.events.k8s.io"], [IDENTITY])], "Use 'events' instead in the config file"),
        ([(["secrets.*"], [IDENTITY])], "encrypting the same resource across groups"),
        ([(["serviceipallocations"], [IDENTITY])], "which do not have REST API/s"),
        ([(["secrets"], [{}])], "does not contain any of the expected providers"),
        ([(["secrets"], [{**IDENTITY, "aescbc": KEYS}])], "more than one provider specified"),
        ([(["secrets"], [{"rot13": {}}])], 'resources[0].providers[0]: Invalid value: "rot13"'),
        ([(["secrets"], [{"aescbc": {"keys": []}}])], "at least one keys is required"),
        (
            [(["secrets"], [{"aescbc": {"keys": [{"name": "a", "secret": "###"}]}}])],
            'keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded',
        ),
        (
            [(["secrets"], [{"secretbox": {"keys": [{"name": "a", "secret": "YWJj"}]}}])],
            "secret is not of the expected length, got 3, expected one of [32]",
        ),
        (
            [(["secrets"], [{"aesgcm": {"keys": [{"secret": SECRET}]}}])],
            "keys[0].name: Required value: name is a mandatory field for a key",
        ),
        ([(["secrets"], [KMS, KMS])], "duplicate KMS provider name vault, names must be unique"),
        ([(["secrets"], [{"kms": {**KMS["kms"], "name": "a:b"}}])], "must not contain ':'"),
        ([(["secrets"], [{"kms": {**KMS["kms"], "apiVersion": "v1"}}])], "use apiVersion v2"),
        (
            [(["secrets"], [{"kms": {**KMS["kms"], "cachesize": 10}}])],
            "cachesize is not supported in v2",
        ),
        (
            [(["secrets"], [{"kms": {**KMS["kms"], "endpoint": "tcp://x"}}])],
            'unsupported scheme "tcp" for KMS provider, only unix is supported',
        ),
        (
            [(["secrets"], [{"kms": {**KMS["kms"], "timeout": "0s"}}])],
            "timeout should be a positive value",
        ),
    ],
)
def test_refuses(rules: list[tuple[list[str], list[dict[str, Any]]]], message: str) -> None:
    with pytest.raises(EncryptionConfigError) as caught:
        parse_config(document(*rules))
    assert message in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(EncryptionConfigError) as caught:
        parse_config(document((["*"], []), (["A"], [IDENTITY])))
    text = str(caught.value)
    assert text.startswith("[")
    assert "capital letters" in text
    assert "providers" in text


@pytest.mark.parametrize("text", ["", "[]", "kind: Pod\napiVersion: v1\n", "a: ["])
def test_refuses_other_documents(text: str) -> None:
    with pytest.raises(EncryptionConfigError):
        parse_config(text)
