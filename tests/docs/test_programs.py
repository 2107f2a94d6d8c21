"""Pages that start programs: their command lines are run, on files and ports of a test."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Iterator

import pytest
from tests.docs.test_excerpts import typed as typed_in
from tests.docs.test_pages import DOCS, blocks, run

from pykcp.cli.operate.lifecycle import UPGRADE
from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.kit.flags import FlagSet
from pykcp.programs.operator.kinds.schemas import SCHEMAS
from pykcp.programs.shard.settings import ShardSettings
from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.multicluster.downstream import write_kubeconfig
from pykcp.testing.multicluster.workspaces import bind_workload
from pykcp.testing.processes import wait_for_processes
from pykcp.testing.programs import kcp, typed
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import make_workspace

FREE_PORT = ("--bind-address=127.0.0.1", "--secure-port=0", "--experimental-bind-free-port")
KUBECONFIG = "export KUBECONFIG=.kcp/admin.kubeconfig"
needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="there is no kubectl on this machine"
)


def started(page: str, program: str) -> list[str]:
    """The command lines with which a page starts a program."""
    found = [text for words, text in blocks(page) if words == ["sh", "server"]]
    lines = [line for text in found for line in text.splitlines()]
    return [line for line in lines if line.split()[0] == program]


# --- reference/clusters.md, reference/virtual-workspaces.md


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that leaves clusters to programs."""
    folder = tmp_path_factory.mktemp("programs")
    with server("--cluster-controllers=false", "--split-workloads=false", directory=folder) as one:
        yield one


def write_administrators(shard: ServerProcess, folder: pathlib.Path) -> None:
    """The kubeconfigs that the pages name: here all of them are of the shard's administrator."""
    for name in ("admin", "controller", "splitter"):
        write_kubeconfig(folder / f"{name}.kubeconfig", shard.client().access)
    shutil.copy(shard.kubeconfig, folder / "shard-admin.kubeconfig")


def test_the_programs_of_clusters(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    page = "reference/clusters.md"
    write_administrators(shard, tmp_path)
    everywhere, one_workspace = started(page, "cluster-controller")
    (splitter,) = started(page, "deployment-splitter")
    root = shard.client(cluster="root")
    make_workspace(root, "shop")
    bind_workload(root.in_cluster("root:shop"))
    for command in (everywhere, one_workspace, splitter):
        with typed(command, tmp_path):
            pass


def test_virtual_workspaces_as_a_program(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    write_administrators(shard, tmp_path)
    (command,) = started("reference/virtual-workspaces.md", "virtual-workspaces")
    with typed(re.sub(r"[][]", "", command), tmp_path, "--secure-port=0"):
        pass


# --- troubleshooting.md


def test_errors_of_the_start(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    """What the page tells to look for is what the program says."""
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    taken = f"--secure-port={shard.port}"
    for phrase, words in {
        "is in use by another program": (f"--root-directory={tmp_path}", taken),
        "store.db is in use by process": (f"--root-directory={shard.root}",),
        "cannot make": ("--root-directory=/proc/kcp",),
    }.items():
        assert f"`{phrase}" in text or f"{phrase}`" in text, phrase
        code, said = kcp("start", "--bind-address=127.0.0.1", *words)
        assert code == 1
        assert phrase in said


# --- start/install.md


def test_flags_of_the_installation(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the unit, with its file, and of the container."""
    page = "start/install.md"
    files = {words[1]: text for words, text in blocks(page) if len(words) == 2}
    (tmp_path / "config.yaml").write_text(files["config.yaml"])
    (line,) = re.findall(
        r"^ExecStart=/opt/kcp/bin/kcp start (.*)$", files["kcp.service"], re.MULTILINE
    )
    monkeypatch.chdir(tmp_path)
    words = line.replace("/etc/kcp/", "").split()
    settings = ShardSettings.parse(words)[0].checked()
    assert settings.generic.external_hostname == "kcp.example.com"
    assert str(settings.generic.root_directory) == "/var/lib/kcp"
    (line,) = re.findall(r"^\$ docker run .* pykcp start (.*)$", _text(page), re.MULTILINE)
    assert ShardSettings.parse(line.split())[0].checked().generic.external_hostname == "localhost"


def _text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


# --- operate/scaling.md


def test_more_cores(tmp_path: pathlib.Path) -> None:
    processes, _ = started("operate/scaling.md", "kcp")
    with server(*processes.split()[2:], directory=tmp_path) as process:
        wait_for_processes(process, 4)


@pytest.mark.skipif(find_etcd() is None, reason="needs etcd")
def test_servers_on_etcd(tmp_path: pathlib.Path) -> None:
    _, command = started("operate/scaling.md", "kcp")
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    try:
        command = re.sub(r"https://etcd-\d:2379(,https://etcd-\d:2379)*", etcd.url, command)
        with typed(command.removesuffix(" …"), tmp_path, *FREE_PORT):
            pass
    finally:
        etcd.kill()


# --- operate/tracing.md


def test_tracing(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    page = "operate/tracing.md"
    (config,) = (text for words, text in blocks(page) if words[1:] == ["tracing.yaml"])
    (tmp_path / "tracing.yaml").write_text(config)
    (command,) = started(page, "kcp")
    with typed(command, tmp_path, *FREE_PORT):
        pass
    (proxy,) = started(page, "kcp-front-proxy")
    FrontProxySettings.parse(proxy.removesuffix(" …").split()[1:])


# --- guides/envtest.md


@needs_kubectl
def test_kinds_of_kubernetes(tmp_path: pathlib.Path) -> None:
    """One server is both of the page: a cluster at the root of the URL, and an export."""
    commands = list(typed_in("guides/envtest.md"))
    starts = [command for command in commands if command.startswith("kcp start")]
    flags = [word for command in starts for word in command.split()[2:]]
    assert len(flags) == len(starts) == 2
    others = [command for command in commands if command not in starts]
    others.insert(2, f"{KUBECONFIG}; kubectl create workspace a --enter")
    with server(*flags, directory=tmp_path):
        output = run("\n".join(others), tmp_path)
    assert "KUBEBUILDER_ASSETS=" in output
    assert output.count("deployment.apps/web created") == 2
    assert re.search(r"^web +0/1 ", output, re.MULTILINE)


# --- operate/backup.md, operate/upgrade.md


@needs_kubectl
def test_backups(tmp_path: pathlib.Path) -> None:
    """A shard of several is restored by tests/behaviour/fleet/test_command.py."""
    page = "operate/backup.md"
    (saved, shown, restored), (back,) = shell(page), shell("operate/upgrade.md")
    (lines,) = (text.splitlines() for words, text in blocks(page) if words == ["sh", "workspace"])
    # a workspace comes back where it was if it is not there any more
    lines.insert(1, "kubectl delete workspace team")
    before = "kubectl create workspace test; kubectl create workspace team --type universal"
    with server(directory=tmp_path):
        steps = (before, saved, shown, saved.replace("/kcp", "/before"), *lines, "kubectl ws tree")
        output = run(placed("\n".join((KUBECONFIG, *steps)), tmp_path), tmp_path)
    assert _TREE in output
    output = run(placed(restored + back, tmp_path), tmp_path)
    assert "to go back, stop the server and run:" in output
    with server(directory=tmp_path):
        assert run(f"{KUBECONFIG}\nkubectl get workspaces -o name", tmp_path).splitlines() == [
            "workspace.tenancy.kcp.io/team",
            "workspace.tenancy.kcp.io/test",
        ]


def test_upgrades() -> None:
    """Flags of the command and fields of the objects; tests/behaviour/operate upgrades an installation."""
    page = "operate/upgrade.md"
    (host,) = (text for words, text in blocks(page) if words == ["sh", "host"])
    (words,) = re.findall(r"^kcp upgrade (.*)$", host, re.MULTILINE)
    flags = FlagSet([("", [*UPGRADE.flags])])
    assert flags.parse(words.split())[0] == {"to": "0.2.0"}
    (operator,) = (text for words, text in blocks(page) if words == ["sh", "operator"])
    patches = re.findall(
        r"^kubectl -n kcp patch (\w+) \w+ --type=merge -p '(.*)'$", operator, re.MULTILINE
    )
    assert [kind for kind, _ in patches] == ["rootshard", "frontproxy"]
    for kind, patch in patches:
        (schema,) = (found for name, found in SCHEMAS.items() if name.lower() == kind)
        image = schema.spec["properties"]["image"]["properties"]
        assert json.loads(patch)["spec"]["image"].keys() <= image.keys()


_TREE = """
.
└── root
    ├── team
    ├── team-copy
    └── test
        └── team
"""


def shell(page: str) -> list[str]:
    return [text for words, text in blocks(page) if words == ["sh"]]


def placed(text: str, folder: pathlib.Path) -> str:
    """Commands on directories of the test."""
    for directory in ("/backups", "/var/lib"):
        text = text.replace(f"={directory}/", f"={folder}{directory}/")
    return text


# --- reference/configuration.md


def test_flags_in_a_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "reference/configuration.md"
    (config,) = (text for words, text in blocks(page) if words[1:] == ["kcp.yaml"])
    (tmp_path / "audit.yaml").write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
    )
    (tmp_path / "kcp.yaml").write_text(config.replace("/etc/kcp/", ""))
    monkeypatch.chdir(tmp_path)
    ports = []
    for command in list(typed_in(page))[1:3]:
        settings = ShardSettings.parse(command.split()[2:])[0].checked()
        ports.append(settings.serving.secure_port)
    assert ports == [6443, 7443]
