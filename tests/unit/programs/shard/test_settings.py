"""Settings: every problem is found before anything is started."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest

from pykcp.programs.shard.settings import SettingsError, ShardSettings


def test_the_defaults_are_fine() -> None:
    """kcp's own defaults can be used as they are."""
    assert ShardSettings().problems() == []
    assert ShardSettings().checked() == ShardSettings()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"secure_port": 0}, "--secure-port 0 is not a valid port, must be between 1 and 65535"),
        ({"secure_port": 70000}, "--secure-port 70000 is not a valid port, must be between 1 and 65535"),
        ({"secure_port": -1, "bind_free_port": True}, "--secure-port -1 is not a valid port"),
        ({"bind_address": "localhost"}, "--bind-address 'localhost' is not an IP address"),
        ({"client_ca_file": "/no/such/file"}, "--client-ca-file: no such file: /no/such/file"),
        ({"service_account_key_files": ("/no/such/file",)}, "--service-account-key-file: no such file"),
        ({"tls_cert_file": __file__}, "--tls-cert-file and --tls-private-key-file must be given together"),
        ({"etcd_keyfile": __file__}, "--etcd-certfile and --etcd-keyfile must be given together"),
        ({"shard_base_url": "http://x"}, "--shard-base-url 'http://x' must be an https URL"),
        ({"logging_format": "xml"}, "--logging-format 'xml' must be text or json"),
        ({"batteries": frozenset(("nosuch",))}, "--batteries-included: unknown batteries ['nosuch']"),
    ],
)  # fmt: skip
def test_problems(changes: dict[str, Any], problem: str) -> None:
    """One line each, with the flag's name and what is expected."""
    found = ShardSettings(**changes).problems()
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_all_problems_at_once() -> None:
    """They are raised together, a line each."""
    settings = ShardSettings(secure_port=0, bind_address="x", token_auth_file="/no/such/file")
    with pytest.raises(SettingsError) as caught:
        settings.checked()
    assert len(str(caught.value).splitlines()) == 3


def test_a_free_port_may_be_asked_for() -> None:
    """Port 0 is fine together with the flag that says so."""
    assert ShardSettings(secure_port=0, bind_free_port=True).problems() == []


def test_settings_are_frozen() -> None:
    """What was checked cannot change."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        ShardSettings().secure_port = 1  # type: ignore[misc]
    assert isinstance(ShardSettings().root_directory, pathlib.Path)
