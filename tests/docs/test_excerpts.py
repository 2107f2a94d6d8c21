"""Pages that show single commands: each is run on a server that has what the page assumes.

Beside the blocks `sh` and the files that tests/docs/test_pages.py knows, lines that begin with `$ ` are commands; what
follows them is output. All pages share a server; each has a folder and a kubeconfig of its own.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.clients.helm import find_helm, helm_stand_in
from tests.docs.test_pages import DOCS, blocks, environ

from pykcp.testing.server import ServerProcess, environment

HELM = find_helm()
_END = "END-OF-FILE-OF-A-PAGE"
_ORG = "kubectl create workspace org --ignore-existing >/dev/null\n"
_BROKEN = """kubectl create workspace gone --enter
kubectl apply -f - <<EOF
apiVersion: apis.kcp.io/v1alpha2
kind: APIExport
metadata: {name: widgets}
EOF
kubectl ws :root
kubectl create workspace acme --enter
cat <<EOF | kubectl apply -f -
apiVersion: apis.kcp.io/v1alpha2
kind: APIBinding
metadata: {name: widgets}
spec: {reference: {export: {path: "root:gone", name: widgets}}}
EOF
kubectl wait --for=condition=APIExportValid apibinding/widgets --timeout=60s
kubectl ws :root:gone
kubectl delete apiexport widgets
kubectl ws :root:acme
kubectl wait --for=condition=APIExportValid=False apibinding/widgets --timeout=60s
kubectl create namespace prod
"""
_EXPORT = """kubectl create workspace wild --enter
cat > schema.yaml <<EOF
apiVersion: apis.kcp.io/v1alpha1
kind: APIResourceSchema
metadata: {name: v1.cowboys.wildwest.dev}
spec:
  group: wildwest.dev
  names: {plural: cowboys, singular: cowboy, kind: Cowboy, listKind: CowboyList}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {type: object}}
---
apiVersion: apis.kcp.io/v1alpha2
kind: APIExport
metadata: {name: cowboys}
spec:
  resources:
  - {name: cowboys, group: wildwest.dev, schema: v1.cowboys.wildwest.dev, storage: {crd: {}}}
EOF
kubectl apply -f schema.yaml
kubectl ws :root:org
kubectl kcp bind apiexport root:wild:cowboys
"""
_WHY = """cat > why.json <<EOF
{"apiVersion": "access.pykcp.dev/v1alpha1", "kind": "AccessExplanation",
 "spec": {"resourceAttributes": {"verb": "create", "resource": "configmaps", "namespace": "web"}}}
EOF
"""
_TRASH = """kubectl create workspace org --ignore-existing --enter
for name in team shop db; do kubectl create workspace $name; done
for name in old new; do
  kubectl create workspace $name
  kubectl label workspace $name batch=$name
done
kubectl ws team
kubectl create workspace service
kubectl create workspace shop
kubectl ws :root:org
"""
_BOUND = """kubectl create workspace first --enter
kubectl kcp bind apiexport root:kubernetes --timeout 120s
kubectl ws :root
kubectl create workspace team
"""
"""The first workspace that binds a hundred kinds waits the longest."""
_OPERATED = """kubectl create workspace operated --enter
kubectl kcp bind apiexport root:kubernetes --timeout 120s
kubectl create namespace kcp
kubectl -n kcp create secret generic admin-kubeconfig --from-literal=kubeconfig=made
"""
_AUDITED = "kubectl create workspace team-a --enter\nkubectl create configmap noted\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Excerpt:
    assumes: str = ""
    """Commands that a reader has run before."""
    shows: tuple[str, ...] = ()
    """What the output contains."""
    needs: str = ""
    """A program that the commands use, beside kubectl."""
    fails: tuple[str, ...] = ()
    """Commands that report an error, as the page shows."""
    leaves_out: str = ""
    """What only a server that is broken answers: a pattern of commands."""


PAGES = {
    "guides/access.md": Excerpt(
        _ORG + _WHY,
        ("no - access denied", '"authorizer"'),
        fails=("kubectl auth can-i list",),
    ),
    "guides/custom-resources.md": Excerpt(shows=("small", "box.example.com/small replaced")),
    "guides/deleting-workspaces.md": Excerpt(
        _TRASH, ('Workspace "root:org:team:service" restored.', "root:universal")
    ),
    "guides/entering-workspaces.md": Excerpt(shows=('"kind":"Workspace"',)),
    "guides/gitops.md": Excerpt(
        _BOUND,
        (
            *(("STATUS: deployed", "Rollback to 1", "uninstalled") if HELM else ("REACHED: 5",)),
            "secret/prod created",
            "kube-system",
        ),
    ),
    "operate/audit.md": Excerpt(_AUDITED, ('"create","configmaps","noted",201',), needs="jq"),
    "operate/health.md": Excerpt(shows=("[+]ping ok",), leaves_out="readyz/tasks"),
    "operate/limits.md": Excerpt(),
    "operate/monitoring.md": Excerpt(),
    "operate/operator.md": Excerpt(_OPERATED),
    "operate/tracing.md": Excerpt(),
    "reference/clusters.md": Excerpt(
        "kubectl create workspace bound --enter\n", ("workload.kcp.dev created and bound",)
    ),
    "reference/plugins.md": Excerpt(
        "kubectl create workspace plugins --enter\n", ('"team" (type root:universal)',)
    ),
    "reference/virtual-workspaces.md": Excerpt(
        _ORG + _EXPORT + _WHY, ("root:org", '"authorizer"', "OBJECTS")
    ),
    "troubleshooting.md": Excerpt(
        _BROKEN,
        ("wrong bindings     widgets: APIExportValid is False", "denied: User "),
        fails=("kubectl kcp doctor", "kubectl ws why"),
    ),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("pages")
    (policy,) = (t for words, t in blocks("operate/audit.md") if "policy.yaml" in words)
    (folder / "policy.yaml").write_text(policy)
    process = ServerProcess(
        folder / ".kcp",
        (
            "--batteries-included=+kubernetes,+metrics-viewer",
            "--workspace-undelete-window=24h",
            f"--audit-policy-file={folder}/policy.yaml",
            f"--audit-log-path={folder}/audit.log",
        ),
    )
    process.start_seconds = 120  # a hundred kinds are created at the start
    process.start()
    try:
        yield process
    finally:
        process.stop()


def commands(text: str) -> Iterator[str]:
    """The commands of a block with output: after a prompt, until a line that does not go on."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += f"\n{next(lines)}"
            yield command


def typed(page: str) -> Iterator[str]:
    """Everything that a reader types and writes, in the order of the page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    pattern = r"^```([^\n`]*)\n(.*?)^```$|((?:^    [^\n]*\n)+)"
    for head, block, indented in re.findall(pattern, text, re.MULTILINE | re.DOTALL):
        words = head.split()
        if indented:
            yield from commands(re.sub("^    ", "", indented, flags=re.MULTILINE))
        elif words == ["sh"]:
            yield block
        elif len(words) == 2 and words[0] != "sh":
            yield f"cat > {words[1]} <<'{_END}'\n{block}{_END}"
        elif words in ([], ["console"]):
            yield from commands(block)


def script(page: str, excerpt: Excerpt, address: str) -> str:
    parts = [excerpt.assumes]
    for part in typed(page):
        if excerpt.leaves_out and re.search(excerpt.leaves_out, part):
            continue
        fails = any(part.startswith(command) for command in excerpt.fails)
        parts.append(f"! {part}" if fails else part)
    return "\n".join(parts).replace("https://kcp.example:6443", address)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
@pytest.mark.parametrize("page", PAGES)
def test_every_excerpt_works(page: str, shared: ServerProcess, tmp_path: pathlib.Path) -> None:
    excerpt = PAGES[page]
    if excerpt.needs and shutil.which(excerpt.needs) is None:
        pytest.skip(f"there is no {excerpt.needs} on this machine")
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copy(shared.kubeconfig, kubeconfig)
    (tmp_path / "audit.log").symlink_to(shared.kubeconfig.parent.parent / "audit.log")
    (tmp_path / "deploy").symlink_to(DOCS.parent / "deploy")
    variables = {**environ(tmp_path), "KUBECONFIG": str(kubeconfig)}
    helm = pathlib.Path(HELM) if HELM else helm_stand_in(tmp_path)
    variables["PATH"] += os.pathsep + str(helm.parent)
    access = shared.client().access
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script(page, excerpt, f"https://{access.host}:{access.port}")],
        cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for line in excerpt.shows:
        assert line in done.stdout, done.stdout


def test_the_stand_in_knows_what_helm_is_asked_for(tmp_path: pathlib.Path) -> None:
    helm_stand_in(tmp_path)
    variables = {**os.environ, "PATH": f"{tmp_path / 'helm'}{os.pathsep}{os.environ['PATH']}"}
    for words in ("instal web ./web", "install web ./missing", "upgrade web . --sett a=b"):
        done = subprocess.run(
            ["helm", *words.split()],
            cwd=tmp_path,
            env=variables,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode != 0, words


def test_a_command_that_fails_fails_the_page(tmp_path: pathlib.Path) -> None:
    """With what it said, and without the commands after it."""
    text = "\n".join(commands("$ echo first\nfirst\n$ false\n$ touch later\n"))
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert not (tmp_path / "later").exists()


def test_configuration_files(tmp_path: pathlib.Path) -> None:
    """The file of the page is accepted, and the mistakes that it shows are reported as it shows."""
    page = "reference/configuration.md"
    (text,) = (block for words, block in blocks(page) if words[1:] == ["kcp.yaml"])
    (wrong,) = (block for words, block in blocks(page) if "Error:" in block)
    (tmp_path / "audit.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\n")
    text = text.replace("/etc/kcp/audit.yaml", str(tmp_path / "audit.yaml"))
    mistaken = text.replace("secure-port", "secure-prt").replace("24h", "1 day")
    (tmp_path / "kcp.yaml").write_text(mistaken)
    command = [sys.executable, "-m", "pykcp", "start", "--config=kcp.yaml"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == wrong.splitlines()[1:]
    assert not (tmp_path / ".kcp").exists()
