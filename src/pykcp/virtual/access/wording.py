"""The answers in words, and the commands that grant what is missing."""

from __future__ import annotations

import re
import shlex

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.explanation import RuleGrant, combined_resource
from pykcp.auth.user import SERVICE_ACCOUNT_PREFIX, User, is_service_account
from pykcp.machinery.status import go_quote
from pykcp.types import Object

ACCESS_ROLE = "system:kcp:workspace:access"
_LACKS = {
    "verb": "it does not include the verb",
    "apiGroup": "it is for another API group",
    "resource": "it does not include the resource or subresource",
    "resourceName": "it is for objects of other names",
    "namespace": "it is granted in another namespace",
}
_MAX_NAME = 63


def request_in_words(attributes: Attributes) -> str:
    """`create configmaps in the namespace "web"`"""
    if not attributes.is_resource:
        return f"{attributes.verb} the path {go_quote(attributes.path)}"
    what = combined_resource(attributes)
    if attributes.group:
        what = f"{what}.{attributes.group}"
    if attributes.name:
        what = f"{what} {go_quote(attributes.name)}"
    where = f" in the namespace {go_quote(attributes.namespace)}" if attributes.namespace else ""
    return f"{attributes.verb} {what}{where}"


def user_in_words(user: User) -> str:
    if user.name:
        return f"User {go_quote(user.name)}"
    return f"A member of {', '.join(go_quote(group) for group in user.groups)}"


def grant_in_words(found: RuleGrant) -> str:
    where = " in all workspaces" if found.everywhere else ""
    text = f"{found.grant.describe()}{where}"
    return f"{text}: {_LACKS[found.lacks]}" if found.lacks else text


def grant_as_json(found: RuleGrant) -> Object:
    grant = found.grant
    binding: Object = {"kind": "ClusterRoleBinding", "name": grant.binding}
    if grant.namespace:
        name = grant.binding.removesuffix(f"/{grant.namespace}")
        binding = {"kind": "RoleBinding", "name": name, "namespace": grant.namespace}
    shown: Object = {
        "binding": binding,
        "role": {"kind": grant.role_kind, "name": grant.role_name},
        "subject": {"kind": grant.subject_kind, "name": grant.subject_name},
        "rule": found.rule.to_json(),
        "scope": "Everywhere" if found.everywhere else "Workspace",
    }
    if found.lacks:
        shown["lacks"] = found.lacks
    return shown


def needed_rule(attributes: Attributes) -> Object:
    """The smallest rule that allows a request."""
    if not attributes.is_resource:
        return {"verbs": [attributes.verb], "nonResourceURLs": [attributes.path]}
    rule: Object = {
        "verbs": [attributes.verb],
        "apiGroups": [attributes.group],
        "resources": [combined_resource(attributes)],
    }
    if attributes.name and attributes.verb not in ("create", "deletecollection"):
        rule["resourceNames"] = [attributes.name]
    return rule


def grant_commands(attributes: Attributes) -> list[str]:
    """Create a role with the smallest rule, and bind it."""
    rule, namespace = needed_rule(attributes), attributes.namespace
    kind = "role" if namespace and attributes.is_resource else "clusterrole"
    name = _object_name(attributes)
    words = ["kubectl", "create", kind, name, f"--verb={attributes.verb}"]
    if attributes.is_resource:
        words.append(f"--resource={_kubectl_resource(attributes)}")
        words += [f"--resource-name={one}" for one in rule.get("resourceNames", ())]
    else:
        words.append(f"--non-resource-url={attributes.path}")
    bind = ["kubectl", "create", f"{kind}binding", name, f"--{kind}={name}"]
    bind.append(_subject_flag(attributes.user))
    if kind == "role":
        words.append(f"--namespace={namespace}")
        bind.append(f"--namespace={namespace}")
    return [shlex.join(words), shlex.join(bind)]


def access_commands(user: User) -> list[str]:
    """Let a user into a workspace."""
    name = f"{_slug(user.name or 'members')}-access"
    words = ["kubectl", "create", "clusterrolebinding", name, f"--clusterrole={ACCESS_ROLE}"]
    return [shlex.join([*words, _subject_flag(user)])]


def _subject_flag(user: User) -> str:
    if is_service_account(user):
        return f"--serviceaccount={user.name.removeprefix(SERVICE_ACCOUNT_PREFIX)}"
    if user.name or not user.groups:
        return f"--user={user.name}"
    return f"--group={user.groups[0]}"


def _kubectl_resource(attributes: Attributes) -> str:
    """`deployments.apps/scale`"""
    resource = attributes.resource
    if attributes.group:
        resource = f"{resource}.{attributes.group}"
    return f"{resource}/{attributes.subresource}" if attributes.subresource else resource


def _object_name(attributes: Attributes) -> str:
    what = combined_resource(attributes) if attributes.is_resource else attributes.path
    return _slug(f"{attributes.user.name or 'members'}-{attributes.verb}-{what}")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MAX_NAME].strip("-") or "grant"
