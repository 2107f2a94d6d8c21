"""Starting and stopping: clear refusals, files in their places, and a state that carries on."""

from __future__ import annotations

import itertools
import os
import pathlib
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import yaml

from pykcp.auth.certificates import create_ca, issue_serving
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.server import ServerProcess, environment, server

MAPS = "/api/v1/namespaces/default/configmaps"


def kcp(
    *words: str, directory: pathlib.Path, python_path: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`kcp start` that is expected to refuse."""
    variables = environment()
    if python_path:
        variables["PYTHONPATH"] = f"{python_path}{os.pathsep}{variables['PYTHONPATH']}"
    return subprocess.run(
        [sys.executable, "-m", "pykcp", "start", f"--root-directory={directory}", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=variables,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nosuch",), "Error: unknown flag: --nosuch"),
        (("--secure-port=many",), 'Error: invalid argument "many" for "--secure-port" flag: expected a whole number'),
        (("--bind-address=nowhere",), "Error: --bind-address 'nowhere' is not an IP address"),
        (("--token-auth-file=/no/such/file",), "Error: --token-auth-file: no such file: /no/such/file"),
        (("--feature-gates=NoSuch=true",), "Error: unrecognized feature gate: NoSuch"),
        (("--tls-min-version=1.3",), "Error: --tls-min-version: unknown TLS version '1.3', must be one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13"),
        (("--authorization-order=Nope",), 'Error: --authorization-order: invalid authorizer: "Nope", known are AlwaysAllowGroups, AlwaysAllowPaths, RBAC, Webhook'),
        (("--tls-sni-cert-key=/no/such,/file",), "Error: --tls-sni-cert-key: no such file: /no/such"),
        (("--audit-policy-file=/no/such/file",), "Error: --audit-policy-file: no such file: /no/such/file"),
        (("--root-directory=",), "Error: --root-directory must not be empty"),
        ((f"--client-ca-file={__file__}",), f"Error: --client-ca-file: {__file__} does not contain any valid certificates (PEM)"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_each(
    tmp_path: pathlib.Path, words: tuple[str, ...], message: str
) -> None:
    """A wrong flag, value or file: one line on standard error, exit code 1, nothing made."""
    done = kcp(*words, directory=tmp_path / "kcp")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == message + "\n"
    assert not (tmp_path / "kcp").exists()


FOREIGN = (
    "client-ca-file", "requestheader-client-ca-file", "oidc-ca-file", "root-ca-file", "etcd-cafile", "mount-proxy-ca-file",
    "shard-virtual-workspace-ca-file", "token-auth-file", "authentication-config", "audit-policy-file",
    "authentication-token-webhook-config-file", "authorization-webhook-config-file", "service-account-key-file",
    "service-account-signing-key-file", "service-account-private-key-file", "encryption-provider-config", "tls-sni-cert-key",
)  # fmt: skip


def test_foreign_files_are_named(tmp_path: pathlib.Path) -> None:
    """Files that are something else stop the start, with one line each that names flag and file."""
    file = tmp_path / "foreign"
    file.write_text("this is: [something else\n")
    words = [f"--{name}={file},{file}" if name == "tls-sni-cert-key" else f"--{name}={file}" for name in FOREIGN]  # fmt: skip
    wrong = ("--authorization-order=Nope", "--tls-min-version=1.3", "--tls-cipher-suites=NOPE")
    done = kcp(*words, *wrong, directory=tmp_path / "kcp")
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    for name in FOREIGN:
        (line,) = [one for one in lines if one.startswith(f"Error: --{name}:")]
        assert str(file) in line
    for text in wrong:
        name, value = text.split("=")
        (line,) = [one for one in lines if one.startswith(f"Error: {name}:")]
        assert value in line
    assert all(line.startswith("Error: ") for line in lines)
    assert not (tmp_path / "kcp").exists()


@contextmanager
def mounted(folder: pathlib.Path, options: str) -> Iterator[pathlib.Path]:
    """A file system of its own in memory."""
    folder.mkdir(mode=0o500)
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def read_only(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A directory that not even root can write to."""
    folder = tmp_path / "read-only"
    if os.geteuid() != 0:
        folder.mkdir(mode=0o500)
        yield folder
    else:
        with mounted(folder, "ro"):
            yield folder


def test_a_root_directory_that_cannot_be_written(read_only: pathlib.Path) -> None:
    """Below a file, in a file system that is only read, in one that makes no directories."""
    file = read_only.parent / "file"
    file.touch()
    for directory, problem in (
        (file / "kcp", f"{file} is not a directory"),
        (read_only, f"cannot write to {read_only}"),
        (read_only / "kcp", f"cannot write to {read_only}"),
        (pathlib.Path("/proc/kcp"), "cannot make /proc/kcp: No such file or directory"),
    ):
        done = kcp("--v=0", directory=directory)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"Error: --root-directory: {problem}\n"


@pytest.mark.parametrize("room", [0, 60, 400])
def test_a_full_disk(tmp_path: pathlib.Path, room: int) -> None:
    """Whichever file no longer fits is named, and what to do about it."""
    with mounted(tmp_path / "disk", "size=1m") as disk:
        (disk / "filler").write_bytes(b"x" * ((1024 - room) << 10))
        words = ("--v=0", "--bind-address=127.0.0.1", "--secure-port=0")
        done = kcp(*words, "--experimental-bind-free-port", directory=disk / "kcp")
        assert done.returncode == 1
        errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1, done.stderr
        assert f"no space left to write {disk}/kcp/" in errors[0]
        assert errors[0].endswith("make room there")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), ("-v4",), ("-v=4",), ("-v", "4"), ("--v=4",)])
def test_levels_of_the_log(words: tuple[str, ...]) -> None:
    """As klog reads them: joined to the flag, too."""
    done = kcp(*words, directory=pathlib.Path("/proc/kcp"))
    assert done.returncode == 1
    assert "] starting kcp v1." in done.stderr
    assert ("] the start failed\n" in done.stderr) == bool(words)


def test_etcd_without_its_extra(tmp_path: pathlib.Path) -> None:
    """The message is the command that installs what is missing."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['grpc'] = None\n")
    done = kcp(
        "--etcd-servers=http://127.0.0.1:2379", directory=tmp_path / "kcp", python_path=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr == (
        'Error: --etcd-servers needs an extra that is not installed: pip install "pykcp[etcd]"\n'
    )


def tls12(port: int, ca: pathlib.Path, ciphers: str) -> tuple[str, str]:
    """The cipher suite that a client of TLS 1.2 gets, and the certificate it is shown."""
    context = ssl.create_default_context(cafile=str(ca))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="kcp.example.com") as secure,
    ):
        cipher, shown = secure.cipher(), secure.getpeercert(binary_form=True)
    assert cipher is not None
    assert shown is not None
    return cipher[0], ssl.DER_cert_to_PEM_cert(shown)


def test_a_certificate_that_was_there_and_chosen_suites(tmp_path: pathlib.Path) -> None:
    """apiserver.crt and .key from before the first start are served; only the suites given, too."""
    root, ca = tmp_path / ".kcp", create_ca("mine", time.time())
    root.mkdir(mode=0o700)
    made = issue_serving(ca, ["kcp.example.com", "127.0.0.1"], time.time())
    (root / "apiserver.crt").write_bytes(made.certificate + ca.certificate)
    (root / "apiserver.key").write_bytes(made.key)
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    with server(f"--tls-cipher-suites={suites}", directory=tmp_path) as process:
        few = "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256"
        cipher, shown = tls12(process.port, tmp_path / "ca.crt", f"AES256:{few}")
        assert cipher in few.split(":")
        assert shown.strip() in made.certificate.decode()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            tls12(process.port, tmp_path / "ca.crt", few.replace("128", "256").replace("SHA256", "SHA384"))  # fmt: skip
        assert process.client().get("/readyz").status == 200
    assert (root / "apiserver.crt").read_bytes() == made.certificate + ca.certificate
    assert (root / "apiserver.key").read_bytes() == made.key


def test_a_signal_ends_a_start_that_waits(tmp_path: pathlib.Path) -> None:
    """etcd does not answer: the start waits for it, and a stop signal ends that at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = (
            f"--root-directory={tmp_path}",
            f"--etcd-servers=127.0.0.1:{silent.getsockname()[1]}",
        )
        with subprocess.Popen(
            [sys.executable, "-m", "pykcp", "start", *words],
            stderr=subprocess.PIPE, text=True, env=environment(),
        ) as process:  # fmt: skip
            silent.accept()[0].close()
            process.terminate()
            _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "stopped before kcp was ready" in errors
    assert "Traceback" not in errors


def test_what_the_log_says_of_a_start(shard: ServerProcess) -> None:
    """Version, address, data, kubeconfig and a command to try."""
    log = shard.log()
    assert "] starting kcp v1." in log
    assert f"] serving on 127.0.0.1:{shard.port}" in log
    assert f"] data is in {shard.root}" in log
    assert f"try: kubectl --kubeconfig={shard.kubeconfig} get workspaces" in log


def test_a_busy_port_is_named(tmp_path: pathlib.Path) -> None:
    """Somebody else's port: one line that says which."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = kcp("--bind-address=127.0.0.1", f"--secure-port={port}", directory=tmp_path / "kcp")
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert str(port) in errors[0]
    assert "Traceback" not in done.stderr


def test_two_servers_do_not_share_a_directory(shard: ServerProcess) -> None:
    """The second one refuses with a line that names the store, and the first goes on."""
    done = kcp("--bind-address=127.0.0.1", "--secure-port=1", directory=shard.root)
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "store.db" in error
    assert shard.client().get("/readyz").status == 200


def test_files_of_the_root_directory(shard: ServerProcess) -> None:
    """kcp's files under kcp's names; whatever is secret is the owner's alone."""
    names = {path.name for path in shard.root.iterdir()}
    assert names >= {
        "admin.kubeconfig",
        ".admin-token-store",
        "sa.key",
        "apiserver.crt",
        "apiserver.key",
    }
    assert stat.S_IMODE(shard.root.stat().st_mode) == 0o700
    for path in shard.root.iterdir():
        if path.suffix != ".crt":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert len((shard.root / ".admin-token-store").read_bytes()) == 32


def test_contexts_of_the_kubeconfig(shard: ServerProcess) -> None:
    """Contexts root, base, system:admin and shard-base, with kcp's users and URLs."""
    config = yaml.safe_load(shard.kubeconfig.read_text())
    url = f"https://127.0.0.1:{shard.port}"
    assert config["current-context"] == "root"
    assert {c["name"]: c["cluster"]["server"] for c in config["clusters"]} == {
        "base": url,
        "root": f"{url}/clusters/root",
        "system:admin": f"{url}/clusters/system:admin",
    }
    contexts = {
        c["name"]: (c["context"]["cluster"], c["context"]["user"]) for c in config["contexts"]
    }
    assert contexts == {
        "root": ("root", "kcp-admin"),
        "base": ("base", "kcp-admin"),
        "system:admin": ("system:admin", "shard-admin"),
        "shard-base": ("base", "shard-admin"),
    }
    assert {u["name"] for u in config["users"]} == {"kcp-admin", "shard-admin"}
    for context in contexts:
        assert shard.client(context).get("/readyz").status == 200


def test_a_restart_carries_on(tmp_path: pathlib.Path) -> None:
    """Objects and tokens are as before, versions go up."""
    with server(directory=tmp_path) as process:
        root = process.client(cluster="root")
        made = root.post(MAPS, {"metadata": {"name": "kept"}, "data": {"a": "b"}}).json
        tokens = {c: read_access(process.kubeconfig, c).token for c in ("root", "shard-base")}
        ca = (process.root / "apiserver.crt").read_bytes()
        assert process.stop() == 0
        process.start()
        root = process.client(cluster="root")
        assert root.get(f"{MAPS}/kept").json == made
        again = {c: read_access(process.kubeconfig, c).token for c in tokens}
        assert again == tokens
        assert root.with_token(tokens["root"]).get(f"{MAPS}/kept").status == 200
        later = root.post(MAPS, {"metadata": {"name": "later"}}).json["metadata"]
        assert int(later["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        assert (process.root / "apiserver.crt").read_bytes() == ca


def test_a_restart_on_another_port(tmp_path: pathlib.Path) -> None:
    """Clients of exports find the new address, and no longer the old one."""
    path = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/tenancy.kcp.io"

    def ports() -> list[int]:
        reply = process.client(cluster="root").get(path)
        status = reply.json.get("status") or {} if reply.status == 200 else {}  # not there yet
        return [urlsplit(one["url"]).port or 0 for one in status.get("endpoints") or ()]

    with server(directory=tmp_path) as process:
        eventually(lambda: ports() == [process.port])
        before = process.port
        assert process.stop() == 0
        with socket.create_server(("127.0.0.1", before)):
            process.port = 0
            process.start()
            assert process.port != before
            eventually(lambda: ports() == [process.port])


def test_a_foreign_token_store_is_refused(tmp_path: pathlib.Path) -> None:
    """A hash that does not fit the kubeconfig: the line says which file to remove."""
    with server(directory=tmp_path) as process:
        process.stop()
        (process.root / ".admin-token-store").write_bytes(b"x" * 32)
        done = kcp("--bind-address=127.0.0.1", "--secure-port=1", directory=process.root)
        assert done.returncode == 1
        assert '.admin-token-store" and restart kcp' in done.stderr


def test_a_stop_signal_drains(tmp_path: pathlib.Path) -> None:
    """SIGTERM ends open watches cleanly, then the process with exit code 0."""
    with server(directory=tmp_path) as process:
        root = process.client(cluster="root")
        events = root.watch(MAPS)
        first = next(events)
        assert first["type"] == "ADDED"
        rest: list[object] = []
        reader = threading.Thread(target=lambda: rest.extend(events))
        reader.start()
        assert process.stop() == 0
        reader.join(10)
        assert not reader.is_alive()
        assert "Traceback" not in process.log()


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/livez", {}, "ok"), ("/readyz", {}, "ok"), ("/healthz", {}, "ok"),
        ("/livez", {"verbose": ""}, "[+]ping ok\n"), ("/readyz", {"verbose": ""}, "readyz check passed\n"),
        ("/readyz", {"verbose": "", "exclude": "etcd"}, "[+]etcd excluded: ok\n"),
        ("/readyz", {"verbose": ""}, "[+]poststarthook/rbac/bootstrap-roles ok\n"),
        ("/readyz", {"verbose": ""}, "[+]tasks ok\n"),
        ("/healthz", {"verbose": "", "exclude": "x"}, 'no matches for "x"'),
    ],
)  # fmt: skip
def test_health(shard: ServerProcess, path: str, query: dict[str, str], expected: str) -> None:
    """Health is open to everybody, check by check."""
    anonymous = shard.client().with_token("")
    answer = anonymous.get(path, **query)
    assert answer.status == 200
    assert expected in answer.body.decode()


def test_single_checks(shard: ServerProcess) -> None:
    """Each check has a path of its own; other paths are no page."""
    assert shard.client().get("/readyz/ping").body == b"ok"
    assert shard.client().get("/readyz/nosuch").status == 404


def test_version(shard: ServerProcess) -> None:
    """The Kubernetes version, marked as kcp's."""
    version = shard.client().get("/version").json
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.0+kcp-v")


def series(client: TestClient) -> set[str]:
    """Every series without its number, but for those of histograms' buckets."""
    lines = client.get("/metrics").body.decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


def test_metrics_do_not_grow_with_clusters(shard: ServerProcess) -> None:
    """Requests in further clusters, with further names, add no series."""
    client = shard.client()

    def use(name: str) -> None:
        cluster = client.in_cluster(name)
        body = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster"}
        path = "/apis/core.kcp.io/v1alpha1/logicalclusters"
        assert cluster.post(path, {**body, "metadata": {"name": "cluster"}}).status == 201
        cluster.post("/api/v1/namespaces", {"metadata": {"name": name}})
        cluster.get(f"/api/v1/namespaces/{name}/configmaps/{name}")
        cluster.get(f"/apis/{name}/v1/things")
        cluster.get(f"/api/v1/namespaces/{name}/configmaps/{name}/{name}")

    use("metrics0")
    controllers = ("workqueue", "pykcp_workqueue")

    def settled() -> set[str]:
        return {s for s in series(client) if not s.startswith(controllers)}

    before = settled()
    assert any(s.startswith("apiserver_request_total{") for s in before)
    for number in itertools.islice(itertools.count(1), 5):
        use(f"metrics{number}")
    assert settled() == before
    assert not any("metrics1" in s for s in series(client))


def test_tasks_are_shown(shard: ServerProcess) -> None:
    """Every task by name, for users who are allowed to read them; their restarts are counted."""
    assert "compactor" in shard.client().get("/debug/tasks").body.decode()
    metrics = shard.client().get("/metrics").body.decode()
    assert '\npykcp_task_restarts_total{task="shard/compactor"} 0\n' in metrics
    assert "\npykcp_tasks_failing 0\n" in metrics
    assert shard.client().with_token("").get("/debug/tasks").status == 403


def test_json_logs(tmp_path: pathlib.Path) -> None:
    """--logging-format=json gives one object per line."""
    with server("--logging-format=json", directory=tmp_path) as process:
        lines = eventually(lambda: process.log().splitlines())
        parsed = [yaml.safe_load(line) for line in lines]
        assert all({"ts", "level", "msg"} <= set(line) for line in parsed)


def test_without_the_admin_battery_there_is_no_kubeconfig(tmp_path: pathlib.Path) -> None:
    """--batteries-included=workspace-types writes none."""
    root = tmp_path / "kcp"
    words = ["--bind-address=127.0.0.1", "--secure-port=0", "--experimental-bind-free-port"]
    with subprocess.Popen(
        [sys.executable, "-m", "pykcp", "start", f"--root-directory={root}", *words,
         "--batteries-included=workspace-types"],
        stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert any("kcp is ready" in line for line in process.stderr)
        process.terminate()
    assert process.returncode == 0
    assert not (root / "admin.kubeconfig").exists()


def test_versions_of_tls_that_are_no_longer_served() -> None:
    """They do not stop the start, which says what is served instead."""
    with server("--tls-min-version=VersionTLS10") as process:
        assert process.client().get("/readyz").status == 200
        assert "--tls-min-version VersionTLS10 is treated as VersionTLS12" in process.log()


def test_ready_means_that_everything_is_served() -> None:
    """Scripts wait for /readyz, or for the kubeconfig, and go on with a workspace at once."""
    with server() as process:
        root = process.client(cluster="root")
        verbose = root.get("/readyz", verbose="").body.decode()
        assert "poststarthook/kcp-start-controllers ok" in verbose
        workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
        kind = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
        assert root.post(workspaces, {**kind, "metadata": {"name": "first"}}).status == 201
        eventually(lambda: root.get(f"{workspaces}/first").json["status"].get("phase") == "Ready")
        exports = root.get("/apis/apis.kcp.io/v1alpha2/apiexports").json["items"]
        assert "tenancy.kcp.io" in {export["metadata"]["name"] for export in exports}
