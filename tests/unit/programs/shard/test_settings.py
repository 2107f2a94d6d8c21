"""Settings: every problem is found before anything is started."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.kit.flags import FlagError
from pykcp.programs.shard.settings import ShardSettings


def parse(*words: str) -> ShardSettings:
    return ShardSettings.parse(words)[0]


def test_the_defaults_are_fine() -> None:
    """kcp's own defaults can be used as they are, and are those of an empty command line."""
    assert parse() == ShardSettings()
    assert ShardSettings().problems() == []
    assert ShardSettings().checked() == ShardSettings()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--secure-port=0", "--secure-port 0 is not a valid port, must be between 1 and 65535"),
        ("--secure-port=70000", "--secure-port 70000 is not a valid port, must be between 1 and 65535"),
        ("--secure-port=7 --experimental-bind-free-port", "--secure-port=0 required if --experimental-bind-free-port is set"),
        ("--bind-address=localhost", "--bind-address 'localhost' is not an IP address"),
        ("--client-ca-file=/no/such/file", "--client-ca-file: no such file: /no/such/file"),
        ("--client-ca-file=/", "--client-ca-file: cannot read /: Is a directory"),
        (f"--client-ca-file={__file__}", f"--client-ca-file: {__file__} does not contain any valid certificates (PEM)"),
        (f"--requestheader-client-ca-file={__file__}", f"--requestheader-client-ca-file: {__file__} does not contain any"),
        ("--service-account-key-file=/no/such/file", "--service-account-key-file: no such file"),
        (f"--tls-cert-file={__file__}", "--tls-cert-file and --tls-private-key-file must be given together"),
        (f"--tls-cert-file={__file__} --tls-private-key-file={__file__}", f"--tls-cert-file: {__file__} and {__file__} are not a certificate and its key (PEM)"),
        (f"--tls-cert-file=/no.crt --tls-private-key-file={__file__}", "--tls-cert-file: no such file: /no.crt"),
        (f"--tls-cert-file={__file__} --tls-private-key-file=/no.key", "--tls-private-key-file: no such file: /no.key"),
        (f"--shard-client-cert-file={__file__} --shard-client-key-file={__file__}", f"--shard-client-cert-file: {__file__} and"),
        (f"--cert-dir={__file__}", f"--cert-dir: {__file__} is not a directory"),
        ("--tls-min-version=VersionTLS14", "--tls-min-version: unknown TLS version 'VersionTLS14', must be one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13"),
        ("--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,NOSUCH", "--tls-cipher-suites: cipher suite NOSUCH not supported or doesn't exist"),
        ("--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "--tls-cipher-suites lacks a suite that HTTP/2 requires:"),
        ("--tls-sni-cert-key=only.crt", "--tls-sni-cert-key 'only.crt' must be a certificate and key file"),
        ("--tls-sni-cert-key=/no.crt,/no.key:example.com", "--tls-sni-cert-key: no such file: /no.crt"),
        (f"--etcd-keyfile={__file__}", "--etcd-certfile and --etcd-keyfile must be given together"),
        ("--shard-base-url=http://x", "--shard-base-url 'http://x' must be an https URL"),
        ("--logging-format=xml", "--logging-format 'xml' must be text or json"),
        ("--batteries-included=nosuch", "--batteries-included: unknown batteries ['nosuch']"),
        ("--authorization-order=RBAC,Nosuch", '--authorization-order: invalid authorizer: "Nosuch"'),
        ("--authorization-order=", "--authorization-order must name at least one authorizer"),
        ("--authorization-always-allow-paths=/a*b", '--authorization-always-allow-paths: only trailing * allowed in "/a*b"'),
        ("--root-directory=/proc/version", "--root-directory: /proc/version is not a directory"),
        (f"--root-directory={__file__}/x", f"--root-directory: {__file__} is not a directory"),
        ("--audit-policy-file=/no/such/file", "--audit-policy-file: no such file: /no/such/file"),
        (f"--audit-policy-file={__file__}", "--audit-policy-file: loading audit policy file:"),
        ("--max-connections=0", "--max-connections must be positive"),
        ("--worker-job-timeout=0", "--worker-job-timeout must be greater than 0"),
        ("--workspace-undelete-window=-1s", "--workspace-undelete-window must not be negative"),
        ("--tenant-egress-allow=no/net", "--tenant-egress-allow: "),
        ("--service-account-issuer=", "--service-account-issuer must not be empty"),
        ("--oidc-client-id=x", "oidc-issuer-url and oidc-client-id must be specified together"),
        ("--authorization-webhook-version=v9", 'unsupported webhook authorizer version "v9"'),
    ],
)  # fmt: skip
def test_problems(flags: str, problem: str) -> None:
    """One line each, with the flag's name and what is expected."""
    found = parse(*flags.split()).problems()
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_all_problems_at_once() -> None:
    """They are raised together, a line each."""
    settings = parse("--secure-port=0", "--bind-address=x", "--token-auth-file=/no/such/file")
    with pytest.raises(SettingsError) as caught:
        settings.checked()
    assert len(str(caught.value).splitlines()) == 3


def test_an_empty_root_directory() -> None:
    """It does not stand for the working directory."""
    with pytest.raises(FlagError, match="--root-directory must not be empty"):
        parse("--root-directory=")


def test_a_root_directory_that_cannot_be_made() -> None:
    """The flag and the directory are named."""
    with pytest.raises(SettingsError, match="--root-directory: cannot make /proc/nosuch: "):
        parse("--root-directory=/proc/nosuch").generic.make_root()


def test_a_free_port_may_be_asked_for() -> None:
    """Port 0 is fine together with the flag that says so."""
    assert parse("--secure-port=0", "--experimental-bind-free-port").problems() == []


def test_settings_are_frozen() -> None:
    """What was checked cannot change."""
    settings = ShardSettings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.serving.secure_port = 1  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del settings.serving  # type: ignore[misc]
    assert isinstance(settings.generic.root_directory, pathlib.Path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("admin", {"admin"}), ("+user", {"workspace-types", "admin", "user"}), ("-admin", {"workspace-types"}),
        ("user,-admin", {"user"}),
    ],
)  # fmt: skip
def test_batteries(given: str, expected: set[str]) -> None:
    """Plain names replace the default, + and - change it."""
    assert parse(f"--batteries-included={given}").generic.batteries == expected


def test_feature_gates() -> None:
    """Known gates are set; unknown ones and odd values are rejected by name."""
    features = parse("--feature-gates=WorkspaceMounts=true,WatchList=false").features
    assert features.feature_gates == {"WorkspaceMounts": True, "WatchList": False}
    assert features.gates == {"WorkspaceMounts"}
    with pytest.raises(FlagError) as caught:
        parse("--feature-gates=NoSuch=true,WatchList=maybe")
    assert str(caught.value).splitlines() == [
        "unrecognized feature gate: NoSuch",
        "invalid value of WatchList: maybe, must be true or false",
    ]
