"""A workspace handed to other Python clients: each gets what it calls a configuration.

    from kubernetes import client
    from pykcp.client.adapters import for_kubernetes

    core = client.CoreV1Api(for_kubernetes(workspace))

Each function imports the library that it is for; none of them is a dependency of pykcp.
"""

from __future__ import annotations

import base64
import pathlib
from datetime import UTC
from typing import Any

from pykcp.client.credentials import run_plugin, token_of
from pykcp.client.sync import SyncWorkspace
from pykcp.client.workspaces import Workspace
from pykcp.clients.kubeconfig import KubeconfigServer
from pykcp.types import Object

AnyWorkspace = Workspace | SyncWorkspace


def kubeconfig(workspace: AnyWorkspace, namespace: str = "default") -> Object:
    """A kubeconfig with one context, whose server is the workspace.

    It contains certificates and keys; a credential plugin and a file with a token are named in it,
    as what they give is replaced while it is used.
    """
    found = _plain(workspace)
    endpoint = found.transport.given
    cluster: Object = {"server": found.transport.url + found.base}
    authority = _content(endpoint.authority, endpoint.authority_file)
    if authority:
        cluster["certificate-authority-data"] = authority
    if endpoint.skip_verify:
        cluster["insecure-skip-tls-verify"] = True
    if endpoint.server_name:
        cluster["tls-server-name"] = endpoint.server_name
    context = {"cluster": "workspace", "user": "user", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "workspace",
        "contexts": [{"name": "workspace", "context": context}],
        "clusters": [{"name": "workspace", "cluster": cluster}],
        "users": [{"name": "user", "user": _user(endpoint)}],
    }


def _plain(workspace: AnyWorkspace) -> Workspace:
    return workspace.workspace if isinstance(workspace, SyncWorkspace) else workspace


def _user(endpoint: KubeconfigServer) -> Object:
    user: Object = {}
    if endpoint.plugin is not None:
        user["exec"] = endpoint.plugin
    certificate = _content(endpoint.certificate, endpoint.certificate_file)
    if certificate:
        user["client-certificate-data"] = certificate
        user["client-key-data"] = _content(endpoint.key, endpoint.key_file)
    if endpoint.token_file:
        user["tokenFile"] = str(pathlib.Path(endpoint.token_file).absolute())
    elif endpoint.token:
        user["token"] = endpoint.token
    if endpoint.username:
        user["username"], user["password"] = endpoint.username, endpoint.password
    return user


def _content(data: bytes, file: str) -> str:
    if not data and file:
        data = pathlib.Path(file).read_bytes()
    return base64.b64encode(data).decode()


def write_kubeconfig(workspace: AnyWorkspace, path: pathlib.Path | str) -> pathlib.Path:
    """The same as a file that only its owner can read; it is for kubectl, Helm and the like."""
    import yaml

    file = pathlib.Path(path)
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(kubeconfig(workspace)))
    return file


def for_kubernetes(workspace: AnyWorkspace) -> Any:
    """An `ApiClient` of the package `kubernetes`."""
    from kubernetes import config

    return config.new_client_from_config_dict(kubeconfig(workspace))


async def for_kubernetes_asyncio(workspace: AnyWorkspace) -> Any:
    """An `ApiClient` of the package `kubernetes_asyncio`. Close it at the end."""
    from kubernetes_asyncio import client, config

    settings = client.Configuration()
    await config.load_kube_config_from_dict(kubeconfig(workspace), client_configuration=settings)
    return client.ApiClient(configuration=settings)


def for_lightkube(workspace: AnyWorkspace) -> Any:
    """A `KubeConfig` of lightkube, for its `Client` and `AsyncClient`."""
    from lightkube import KubeConfig

    return KubeConfig.from_dict(kubeconfig(workspace))


async def for_kr8s(workspace: AnyWorkspace) -> Any:
    """An `Api` of kr8s, which reads no files with tokens: it gets the token that is there now."""
    import kr8s.asyncio

    document = kubeconfig(workspace)
    user = document["users"][0]["user"]
    if user.pop("tokenFile", ""):
        user["token"] = token_of(_plain(workspace).transport.given)
    return await kr8s.asyncio.api(kubeconfig=document)


def for_kopf(workspace: AnyWorkspace) -> Any:
    """A `ConnectionInfo` of kopf: return it from a function without `async` that is registered with
    `@kopf.on.login()`.

    Kopf calls it again when credentials have expired or are rejected. Each call runs a credential
    plugin and reads a file with a token.
    """
    import kopf

    document = kubeconfig(workspace)
    cluster = document["clusters"][0]["cluster"]
    endpoint, expires = run_plugin(_plain(workspace).transport.given)
    user = _user(endpoint)
    return kopf.ConnectionInfo(
        server=cluster["server"],
        ca_data=cluster.get("certificate-authority-data"),
        insecure=cluster.get("insecure-skip-tls-verify"),
        username=user.get("username"),
        password=user.get("password"),
        certificate_data=user.get("client-certificate-data"),
        private_key_data=user.get("client-key-data"),
        token=token_of(endpoint) or None,
        default_namespace="default",
        # Older versions compare it with a time that names no zone.
        expiration=expires and expires.astimezone(UTC).replace(tzinfo=None),
    )
