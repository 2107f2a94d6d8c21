"""Verbs that do not store what they are given: reviews and token requests."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, cast

import orjson

from pykcp.apis.loader import library
from pykcp.auth import reviews, token_request
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.claims import credential_id
from pykcp.auth.user import MASTERS
from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.resources import SECRETS
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import BadRequest, NotFound
from pykcp.registry.catalog.native import decode_native
from pykcp.registry.codec import strip_cluster
from pykcp.registry.local import LocalClient
from pykcp.registry.resource import LARGE
from pykcp.registry.verbs.admitting import AdmissionRequest, ShownKind
from pykcp.registry.verbs.create import dedup_owners, match_namespace, wipe_system_fields
from pykcp.registry.verbs.read import find
from pykcp.server.call import Call
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.options import check_write_options
from pykcp.server.media.answers import is_plain_json, send_object, send_reformed
from pykcp.server.media.bodies import check_type, media_type, parse_as, raise_or_warn, read_review
from pykcp.server.media.negotiation import JSON
from pykcp.types import Object

Handler = Callable[[Call], Coroutine[Any, Any, None] | None]
_AUTHENTICATION = "authentication.k8s.io/v1"
_ISSUED = "authentication.kubernetes.io/issued-credential-id"
_DEEP_HEADER = "x-kcp-internal-deep-subjectaccessreview"


class Answered:
    """Finds the handler of a verb that is answered rather than stored."""

    def __init__(
        self,
        authentication: Authentication,
        authorizer: Authorizer,
        policy: token_request.TokenPolicy,
        client: LocalClient,
    ) -> None:
        self._authentication = authentication
        self._authorizer = authorizer
        self._policy = policy
        self._client = client
        self._reviews: dict[str, Callable[[Call, Object, reviews.Admit], Awaitable[Object]]] = {
            "subjectaccessreviews": self._subject,
            "localsubjectaccessreviews": self._local_subject,
            "selfsubjectaccessreviews": self._self_subject,
            "selfsubjectrulesreviews": self._self_rules,
            "selfsubjectreviews": self._self_review,
            "tokenreviews": self._token_review,
        }

    def find_of_pod(self, call: Call) -> Handler | None:
        """The handler of a subresource of Kubernetes' own pods, if they are served here."""
        from pykcp.server.handlers.pods import PodVerbs

        return PodVerbs(self._client).find(call)

    def find_proxy(self, call: Call) -> Handler | None:
        """The handler of the subresource `proxy` of Kubernetes' pods, services and nodes."""
        from pykcp.server.handlers.proxied import Proxied

        return Proxied(self._client).find(call)

    def find(self, call: Call) -> Handler | None:
        info = call.info
        if info.verb != "create":
            return None
        if info.subresource == "token" and (info.group, info.resource) == ("", "serviceaccounts"):
            return self._issue_token
        if call.resource.definition.ephemeral and not info.name:
            return self._review
        return None

    async def _review(self, call: Call) -> None:
        check_write_options(call, "CreateOptions")
        review = await read_review(call)
        metadata = review.setdefault("metadata", {})
        wipe_system_fields(metadata)
        match_namespace(call.resource, call.info.namespace, metadata)
        dedup_owners(call.context, metadata)
        if len(call.exchange.request.body) <= LARGE:  # a large one would take long on the loop
            now = call.resource.services.sources.now()
            call.resource.rules.manage_update(None, review, call.context.manager, "", now)
        gate = _gate(call, review, metadata.get("name") or "")
        admission = call.resource.services.admission
        await admission.mutate(gate)
        admit = partial(admission.validate, gate)
        answer = await self._reviews[call.resource.plural](call, review, admit)
        head = {"kind": call.resource.kind, "apiVersion": call.resource.api_version}
        shown = {**head, **answer}
        is_short = is_plain_json(call) or bool(call.accepted.transform)
        if is_short or not await send_reformed(call, orjson.dumps(shown), 201):
            _send(call, shown)

    def _asked(self, call: Call) -> Authorizer:
        """Whom a review asks; what the stages decide is noted if there is an audit trail."""
        if call.audit is None:
            return self._authorizer
        return cast("Authorizer", _Noting(self._authorizer, call))

    async def _subject(self, call: Call, review: Object, admit: reviews.Admit) -> Object:
        is_deep = (
            call.exchange.request.header(_DEEP_HEADER) == "true" and MASTERS in call.user.groups
        )
        return await reviews.subject_access_review(
            self._asked(call), call.cluster, review, is_deep=is_deep, admit=admit
        )

    async def _local_subject(self, call: Call, review: Object, admit: reviews.Admit) -> Object:
        return await reviews.local_subject_access_review(
            self._asked(call), call.cluster, review, call.info.namespace, admit=admit
        )

    async def _self_subject(self, call: Call, review: Object, admit: reviews.Admit) -> Object:
        return await reviews.self_subject_access_review(
            self._asked(call), call.cluster, review, call.user, admit=admit
        )

    async def _self_rules(self, call: Call, review: Object, admit: reviews.Admit) -> Object:
        return await reviews.self_subject_rules_review(
            self._authorizer, call.cluster, review, call.user, admit=admit
        )

    async def _self_review(self, call: Call, review: Object, admit: reviews.Admit) -> Object:
        now = call.resource.services.sources.now.clock()
        return await reviews.self_subject_review(review, call.user, now, admit=admit)

    async def _token_review(self, call: Call, review: Object, admit: reviews.Admit) -> Object:
        return await reviews.token_review(
            self._authentication, call.cluster, review, admit=admit, notes=call.context.audit
        )

    async def _issue_token(self, call: Call) -> None:
        info = call.info
        check_write_options(call, "CreateOptions")
        schema = library().kind("kube/authentication_v1", "TokenRequest")
        request = self._token_request(call, schema)
        gate = _gate(call, request, info.name)
        gate.kind = ShownKind("authentication.k8s.io", "v1", "TokenRequest", schema)
        admission = call.resource.services.admission
        await admission.mutate(gate)
        token_request.set_defaults(request)
        token_request.check_place(request, info.namespace, info.name)
        entry = find(call.resource, call.context, info.namespace, info.name)
        account = call.resource.object_of(entry.value)
        now = call.resource.services.sources.now.clock()
        token_id = str(uuid.uuid4())
        token_request.complete(self._policy, request, account, now)
        await admission.validate(gate)
        answered, warnings = token_request.issue(
            self._policy,
            request,
            account,
            call.cluster,
            secret=await self._bound_secret(call, request),
            now=now,
            token_id=token_id,
        )
        call.context.audit[_ISSUED] = credential_id(token_id)
        for text in warnings:
            call.context.warn(text)
        _send(call, answered)

    def _token_request(self, call: Call, schema: Schema) -> Object:
        value = parse_as(call, "TokenRequest", _AUTHENTICATION)
        body = call.exchange.request.body
        obj = check_type(value, "TokenRequest", _AUTHENTICATION, body)
        problems: list[str] = []
        request = decode_native(
            schema, "TokenRequest", "v1", obj, problems, body if media_type(call) == JSON else None
        )
        if call.context.field_validation != "Ignore":
            raise_or_warn(call.context.field_validation, problems, call.context.warn)
        strip_cluster(request)
        request = {"kind": "TokenRequest", "apiVersion": _AUTHENTICATION, **request}
        metadata = request["metadata"] = request.get("metadata") or {}
        namespace = metadata.get("namespace")
        if namespace and namespace != call.info.namespace:
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        token_request.set_defaults(request)
        dedup_owners(call.context, metadata)
        if len(body) <= LARGE:
            now = call.resource.services.sources.now()
            metadata.pop("managedFields", None)
            manager = FieldManager(schema, _AUTHENTICATION, "TokenRequest", subresource="token")
            if entries := manager.on_update(None, request, call.context.manager, now):
                metadata["managedFields"] = entries
        return request

    async def _bound_secret(self, call: Call, request: Object) -> Object | None:
        name = token_request.bound_secret_name(request)
        if name is None:
            return None
        secret = await self._client.get(call.cluster, SECRETS, name, call.info.namespace)
        if secret is None:
            raise NotFound.resource("", "secrets", name)
        return secret


def _gate(call: Call, obj: Object, name: str) -> AdmissionRequest:
    """The create of something that is not stored, as admission sees it."""
    info = call.info
    return AdmissionRequest(
        call.context, call.resource, "CREATE", info.namespace, name, obj, None, info.subresource
    )


def _send(call: Call, answer: Object) -> None:
    send_object(call, transformed(call, answer) if call.accepted.transform else answer, 201)


class _Noting:
    """Asks the authorizer, and leaves the stages' decisions with the request's audit event."""

    def __init__(self, authorizer: Authorizer, call: Call) -> None:
        self._authorizer = authorizer
        self._call = call

    async def authorize(
        self, cluster: str, attributes: Attributes, *, is_deep: bool = False
    ) -> Decision:
        decision = await self._authorizer.authorize(cluster, attributes, is_deep=is_deep)
        self._call.context.audit.update(decision.audit_annotations("sar.auth.kcp.io"))
        return decision
