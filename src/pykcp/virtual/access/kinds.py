"""The kinds of `access.pykcp.dev`: reviews that are answered, never stored."""

from __future__ import annotations

from functools import cache

from pykcp.apis.catalog import ResourceDefinition
from pykcp.types import Object
from pykcp.virtual.framework import OwnKind

GROUP, VERSION = "access.pykcp.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
EXPLANATIONS, EXPLANATION = "accessexplanations", "AccessExplanation"
HOLDERS, HOLDER_REVIEW = "resourceaccessreviews", "ResourceAccessReview"

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _fields(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def _described(schema: Object, description: str) -> Object:
    return {**schema, "description": description}


_QUESTION = {
    "resourceAttributes": _described(
        _fields(
            verb=_TEXT,
            group=_TEXT,
            version=_TEXT,
            resource=_TEXT,
            subresource=_TEXT,
            namespace=_TEXT,
            name=_TEXT,
        ),
        "The request, if it is for a resource.",
    ),
    "nonResourceAttributes": _described(
        _fields(verb=_TEXT, path=_TEXT), "The request, if it is for another path."
    ),
}
_SUBJECT = {
    "user": _described(_TEXT, "The user. Without user and groups: the user who asks."),
    "groups": _described(_TEXTS, "The groups of the user."),
    "uid": _TEXT,
    "extra": {"type": "object", "additionalProperties": _TEXTS},
}
_RULE = _fields(
    verbs=_TEXTS, apiGroups=_TEXTS, resources=_TEXTS, resourceNames=_TEXTS, nonResourceURLs=_TEXTS
)
_GRANT = _fields(
    binding=_fields(kind=_TEXT, name=_TEXT, namespace=_TEXT),
    role=_fields(kind=_TEXT, name=_TEXT),
    subject=_fields(kind=_TEXT, name=_TEXT),
    rule=_RULE,
    scope=_described(_TEXT, "Workspace, or Everywhere: granted by the server in all workspaces."),
    lacks=_described(_TEXT, "The part of the rule that does not fit the request."),
)
_GRANTS = {"type": "array", "items": _GRANT}
_STAGES = {"type": "array", "items": _fields(name=_TEXT, result=_TEXT, message=_TEXT)}
_MISSING = _described(
    _fields(
        message=_TEXT,
        rule=_RULE,
        namespace=_TEXT,
        roles=_described(_TEXTS, "Existing ClusterRoles that allow the request."),
        commands=_described(_TEXTS, "Commands that grant no more than the request needs."),
    ),
    "What would have to be granted.",
)


@cache
def explanation_definition() -> ResourceDefinition:
    status = _fields(
        allowed={"type": "boolean"},
        message=_TEXT,
        authorizer=_TEXT,
        stages=_STAGES,
        grants=_described(_GRANTS, "The rules that allow the request."),
        nearMisses=_described(_GRANTS, "Granted rules that nearly allow the request."),
        missing=_MISSING,
    )
    columns = (("Allowed", "boolean", ".status.allowed"), ("Message", "string", ".status.message"))
    text = "Explains why a user may or may not do something in a workspace."
    spec = _fields(**_QUESTION, **_SUBJECT)
    return _definition(EXPLANATIONS, EXPLANATION, text, spec, status, columns)


@cache
def holder_definition() -> ResourceDefinition:
    status = _fields(
        users=_TEXTS,
        groups=_TEXTS,
        grants=_GRANTS,
        incomplete=_described({"type": "boolean"}, "There are further grants."),
    )
    columns = (("Users", "string", ".status.users"), ("Groups", "string", ".status.groups"))
    text = "Lists the users and groups to which a request is allowed in a workspace."
    return _definition(HOLDERS, HOLDER_REVIEW, text, _fields(**_QUESTION), status, columns)


def _definition(
    plural: str,
    kind: str,
    description: str,
    spec: Object,
    status: Object,
    columns: tuple[tuple[str, str, str], ...],
) -> ResourceDefinition:
    made = OwnKind(
        GROUP, VERSION, plural, kind, description, spec, status, columns, verbs=("create",)
    )
    return made.definition()
