"""Flags in a file: the same names and values, and problems that name the file and the key."""

from __future__ import annotations

import json
import pathlib

import pytest

from pykcp.programs.kit.flags import FlagError
from pykcp.programs.shard.settings import ShardSettings


def write(folder: pathlib.Path, text: str) -> str:
    path = folder / "config.yaml"
    path.write_text(text)
    return str(path)


def parse(folder: pathlib.Path, text: str, *words: str) -> ShardSettings:
    return ShardSettings.parse([f"--config={write(folder, text)}", *words])[0]


def test_values_of_each_type(tmp_path: pathlib.Path) -> None:
    text = """
    secure-port: 7443
    run_controllers: false
    external-hostname: kcp.example.com
    batteries-included: [workspace-types, user]
    feature-gates: {CacheAPIs: true}
    workspace-undelete-window: 24h
    """
    found = parse(tmp_path, text)
    assert found.serving.secure_port == 7443
    assert found.generic.run_controllers is False
    assert found.generic.external_hostname == "kcp.example.com"
    assert found.generic.batteries == {"workspace-types", "user"}
    assert found.features.feature_gates["CacheAPIs"] is True


def test_lists_and_maps_as_on_the_command_line(tmp_path: pathlib.Path) -> None:
    text = "batteries-included: +user\nfeature-gates: CacheAPIs=true\n"
    found = parse(tmp_path, text)
    assert "user" in found.generic.batteries
    assert found.features.feature_gates["CacheAPIs"] is True


def test_json_is_yaml(tmp_path: pathlib.Path) -> None:
    assert parse(tmp_path, json.dumps({"secure-port": 1})).serving.secure_port == 1


def test_an_empty_file(tmp_path: pathlib.Path) -> None:
    assert parse(tmp_path, "# nothing\n") == ShardSettings.parse([])[0]


def test_the_command_line_wins(tmp_path: pathlib.Path) -> None:
    found = parse(tmp_path, "secure-port: 1\nshard-name: a\n", "--secure-port=2")
    assert (found.serving.secure_port, found.shard.shard_name) == (2, "a")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("secure-prt: 1", "config.yaml: secure-prt: there is no flag of this name (did you mean --secure-port?)"),
        ("secure-port: x", 'config.yaml: secure-port: invalid argument "x" for "--secure-port" flag: expected a whole number'),
        ("secure-port: [1]", "config.yaml: secure-port: must be a single value"),
        ("secure-port:", "config.yaml: secure-port: must be a single value"),
        ("config: other.yaml", "config.yaml: config: there is no flag of this name"),
        ("- secure-port", "config.yaml: must have the names of flags as keys"),
        ("a: [", "config.yaml: while parsing a flow node"),
        ("secure-port: 1\nsecure_port: 2", "config.yaml: secure_port: is given twice"),
    ],
)  # fmt: skip
def test_problems_name_file_and_key(tmp_path: pathlib.Path, text: str, problem: str) -> None:
    with pytest.raises(FlagError) as error:
        parse(tmp_path, text)
    assert problem in str(error.value)


def test_all_problems_at_once(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FlagError) as error:
        parse(tmp_path, "secure-port: x\nno-such: 1\n")
    assert len(str(error.value).splitlines()) == 2


def test_a_missing_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FlagError, match=r"--config: .*none: No such file or directory"):
        ShardSettings.parse([f"--config={tmp_path}/none"])
