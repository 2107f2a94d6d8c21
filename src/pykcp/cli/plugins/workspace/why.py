"""`kubectl ws why VERB RESOURCE [NAME]`: why a request is allowed or denied in a workspace.

The server explains its decision, with the grant that is missing (`/services/access`). kcp does not have it.
"""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.access.discovered import find_resource
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.terminal import GREEN, RED, paint

Object = dict[str, Any]
_GROUP = "access.pykcp.dev/v1alpha1"
_UNKNOWN = "this server does not explain its decisions; `kubectl auth can-i` says what they are"


def why(invocation: CommandInvocation) -> int:
    """Print the explanation; 1 if the request is denied, as `kubectl auth can-i`."""
    if len(invocation.arguments) not in (2, 3):
        raise WantsHelp
    subject = _subject(invocation)
    session = Session(invocation)
    spec = {**_asked(invocation, session), **subject}
    body = {"apiVersion": _GROUP, "kind": "AccessExplanation", "spec": spec}
    path = f"/services/access/clusters/{session.current()}/apis/{_GROUP}/accessexplanations"
    try:
        status = session.client.request("POST", path, body, about="the explanation")["status"]
    except ServerError as error:
        if error.is_not_found:
            raise PluginError(_UNKNOWN) from error
        raise
    for line in explained(status):
        print(line)
    return 0 if status.get("allowed") else 1


def _subject(invocation: CommandInvocation) -> Object:
    """The user of `--as`: the request is about them, and made by the user of the kubeconfig."""
    user, groups = invocation["as"], invocation["as-group"]
    if not user:
        return {}
    invocation.values["as"], invocation.values["as-group"] = "", []
    return {"user": user, "groups": [*(groups or ()), "system:authenticated"]}


def _asked(invocation: CommandInvocation, session: Session) -> Object:
    verb, word, *names = invocation.arguments
    if word.startswith("/"):
        return {"nonResourceAttributes": {"verb": verb, "path": word}}
    resource, _, subresource = word.partition("/")
    found = find_resource(session.client, resource)
    attributes = {"verb": verb, "group": found.group, "resource": found.plural}
    if subresource:
        attributes["subresource"] = subresource
    if found.is_namespaced and not invocation["all-namespaces"]:
        attributes["namespace"] = invocation["namespace"] or session.namespace()
    if names:
        attributes["name"] = names[0]
    return {"resourceAttributes": attributes}


def explained(status: Object) -> list[str]:
    """The lines that are printed."""
    message = status.get("message") or ""
    if status.get("allowed"):
        return [f"{paint('allowed', GREEN)}: {message}", *_grants(status)]
    lines = [f"{paint('denied', RED)}: {message}"]
    missing = status.get("missing") or {}
    if missing.get("roles"):
        lines.append(f"roles that allow it: {', '.join(missing['roles'])}")
    commands = missing.get("commands") or ()
    if commands:
        lines += ["an administrator of the workspace can grant it:", *(f"  {c}" for c in commands)]
    return lines


def _grants(status: Object) -> list[str]:
    lines = []
    for grant in status.get("grants") or ():
        binding, role = grant.get("binding") or {}, grant.get("role") or {}
        if binding.get("name"):
            lines.append(
                f"by {binding.get('kind', '')} {binding['name']}: "
                f"{role.get('kind', '')} {role.get('name', '')}"
            )
    return lines
