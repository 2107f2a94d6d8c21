"""Moving between workspaces."""

from __future__ import annotations

import pytest
import yaml

READY = 'Workspace "{0}" (type root:{1}) is ready to use.\n'
CREATED = 'Workspace "{0}" (type root:{1}) created. Waiting for it to be ready...\n'


def test_there_and_back(shell, org):
    assert shell("ws .") == f"Current workspace is 'root:{org}'.\n"
    shell("create-workspace team")
    assert shell("ws team") == f"Current workspace is 'root:{org}:team' (type root:universal).\n"
    assert shell("ws ..") == f"Current workspace is 'root:{org}'.\n"
    assert shell("ws -") == f"Current workspace is 'root:{org}:team'.\n"
    assert shell("ws -") == f"Current workspace is 'root:{org}'.\n"
    assert shell("ws :") == "Current workspace is 'root'.\n"
    assert shell("ws :root") == "Current workspace is 'root' (type root).\n"
    assert shell(f"ws {org}/team") == (
        f"Current workspace is 'root:{org}:team' (type root:universal).\n"
    )
    assert shell("ws ..:..") == "Current workspace is 'root' (type root).\n"
    assert shell(f"ws use {org}:team --short") == f"root:{org}:team\n"
    assert shell("ws current --short") == f"root:{org}:team\n"
    assert shell("kcp workspace cd ..") == f"Current workspace is 'root:{org}'.\n"


def test_the_kubeconfig_remembers(shell, org):
    shell("ws :root")
    config = yaml.safe_load(shell.kubeconfig.read_text(encoding="utf-8"))
    servers = {entry["name"]: entry["cluster"]["server"] for entry in config["clusters"]}
    assert config["current-context"] == "workspace.kcp.io/current"
    assert servers["workspace.kcp.io/current"].endswith("/clusters/root")
    assert servers["workspace.kcp.io/previous"].endswith(f"/clusters/root:{org}")


def test_home(shell):
    home = shell("ws ~")
    done = shell.run("ws")
    assert done.out == home
    assert done.err.startswith("Note: 'kubectl ws' now matches 'cd' semantics: go to home")
    assert shell("ws .") == home


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("ws nosuch", 'Error: workspace "root:nosuch" not found\n'),
        ("ws :root:nosuch:deeper", 'Error: workspace "root:nosuch:deeper" not found\n'),
        ("ws ..", "Error: invalid workspace path: ..\n"),
        ("ws ..:..", "Error: cannot go up from root\n"),
        ("ws Bad_", "Error: invalid workspace path: Bad_\n"),
        ("ws -", "Error: no previous workspace found in kubeconfig\n"),
        ("ws x --context base", "does not point to a workspace\n"),
        ("ws nosuch --token user-token", 'workspace "root:nosuch" not found\n'),
        ("ws :root --token bad", "the server has asked for the client to provide credentials\n"),
        ("ws tree -i", "Error: could not open a new TTY: open /dev/tty: no such device or address\n"),
        ("create-workspace x --type nosuch", 'workspace type "nosuch" cannot be resolved\n'),
        ("create-workspace", "Error: accepts 1 arg(s), received 0\n"),
        ("kcp bogus", 'error: unknown command "bogus" for "kcp"\n'),
    ],
)  # fmt: skip
def test_refusals(shell, line, complaint):
    assert shell.fails(line).endswith(complaint)


def test_strangers_are_denied(shell, org):
    complaint = shell.fails(f"ws :root:{org} --token user-token")
    assert complaint == f'Error: access to workspace "root:{org}" denied\n'


def test_tree(shell, org):
    for line in ("a", "b", "c -w a", "d -w a:c"):
        shell(f"create-workspace {line}")
    assert shell("ws tree") == (
        f".\n└── {org}\n    ├── a\n    │   └── c\n    │       └── d\n    └── b\n\n"
    )
    assert shell("ws tree -f -w a") == (
        f".\n└── root:{org}:a\n    └── root:{org}:a:c\n        └── root:{org}:a:c:d\n\n"
    )
    wide = shell("ws tree --wide -w :root:" + org).splitlines()
    assert wide[1].split() == ["└──", org, "ws=-", "lc=Ready"]
    assert wide[2].split() == ["├──", "a", "ws=Ready", "lc=Ready"]
    assert len({line.index("ws=") for line in wide[1:]}) == 1


def test_create(shell, org):
    assert shell("create-workspace a") == CREATED.format("a", "universal") + READY.format(
        "a", "universal"
    )
    assert shell.fails("create-workspace a") == (
        'Error: workspaces.tenancy.kcp.io "a" already exists\n'
    )
    assert shell("create-workspace a --ignore-existing") == (
        'Workspace "a" (type root:universal) already exists.\n' + READY.format("a", "universal")
    )
    assert shell.fails("create-workspace a --ignore-existing --type root:team") == (
        'Error: workspace "a" cannot be created with type root:team, '
        "it already exists with different type root:universal\n"
    )
    assert shell("create-workspace b --type root:team --enter").endswith(
        f"Current workspace is 'root:{org}:b' (type root:team).\n"
    )


def test_the_old_way_to_create(shell, org):
    done = shell.run("ws create a")
    assert done.code == 0
    assert done.err.startswith('Command "create" is deprecated, install the')
    assert done.out.endswith(READY.format("a", "universal"))


def test_contexts(shell, org):
    assert shell("ws create-context mine") == 'Created context "mine" and switched to it.\n'
    assert shell.fails("ws create-context mine") == (
        'Error: context "mine" already exists in kubeconfig, use --overwrite to update it\n'
    )
    assert shell("ws create-context mine --overwrite") == 'Updated context "mine".\n'
    assert shell("create-workspace a --create-context other").endswith('Created context "other".\n')
    assert shell("ws . --context other") == f"Current workspace is 'root:{org}:a'.\n"


def test_completion(shell, org):
    shell("create-workspace team-a")
    shell("create-workspace team-b")
    shell("ws :root")
    done = shell.run(f"ws __complete {org}:te")
    assert done.out.splitlines() == [
        f"{org}:team-a\troot:universal",
        f"{org}:team-b\troot:universal",
        ":6",
    ]
    done = shell.run("create-workspace __complete x --type root:t")
    assert done.out.splitlines() == ["root:team", ":4"]
