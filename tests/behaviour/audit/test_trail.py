"""The audit trail of a running server: who did what, where, and what is left out."""

from __future__ import annotations

import base64
import json
import pathlib
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import inside, make_workspace

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
TOKENS = 'user-token,tim,tim-uid,"team-1"\n'
HIDDEN = "do-not-write-this-down"
CORE = {"group": ""}
RULES: list[dict[str, Any]] = [
    {"level": "None", "nonResourceURLs": ["/readyz*", "/metrics"]},
    {"level": "RequestResponse", "resources": [{**CORE, "resources": ["configmaps"]}]},
    {
        "level": "RequestResponse",
        "resources": [
            {"group": "authentication.k8s.io"},
            {**CORE, "resources": ["serviceaccounts/token"]},
        ],
    },
    {"level": "Request", "resources": [{**CORE, "resources": ["services"]}]},
    {"level": "Metadata"},
]


class Audited:
    """A server with an audit log, and what is in it."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.log = directory / "audit.log"
        self.policy = directory / "policy.yaml"
        (directory / "tokens.csv").write_text(TOKENS)
        self.server = ServerProcess(directory / ".kcp")

    def start(self, *flags: str, rules: list[dict[str, Any]] = RULES, **more: Any) -> TestClient:
        document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, **more}
        self.policy.write_text(yaml.safe_dump(document))
        self.server.flags = (
            f"--audit-policy-file={self.policy}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            *flags,
        )
        self.server.start()
        return make_cluster(self.server, "here")

    def events(self, audit_id: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [event for event in found if event["auditID"] == audit_id]

    def complete(self, audit_id: str) -> dict[str, Any]:
        """The last event of a request."""

        def last() -> dict[str, Any] | None:
            found = self.events(audit_id)
            return next((e for e in found if e["stage"] != "RequestReceived"), None)

        event: dict[str, Any] = eventually(last)
        return event


@pytest.fixture
def audited(tmp_path: pathlib.Path) -> Iterator[Audited]:
    made = Audited(tmp_path)
    yield made
    if made.server._process is not None:
        made.server.stop()


def named(audit_id: str, **more: str) -> dict[str, str]:
    return {"Audit-ID": audit_id, "User-Agent": "tester/1.0", **more}


def test_long_yaml_is_not_read_for_the_log(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    lines = "".join(f"  k{number}: some text\n" for number in range(5_000))
    body = f"metadata: {{name: c}}\ndata:\n{lines}"
    made = client.request("POST", CONFIGMAPS, body, "application/yaml", headers=named("long"))
    assert made.status == 201
    event = audited.complete("long")
    words = f"a body of {len(body)} octets in application/yaml is not read for the log"
    assert event["requestObject"] == {"omitted": words}
    assert event["responseObject"]["data"]["k4999"] == "some text"


def test_who_did_what_where(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    body = {"metadata": {"name": "c"}, "data": {"k": "v"}}
    made = client.post(CONFIGMAPS, body, headers=named("create"))
    assert made.status == 201
    assert made.header("audit-id") == "create"
    received, complete = audited.events("create")
    assert received["stage"] == "RequestReceived"
    assert "responseStatus" not in received
    assert complete["kind"] == "Event"
    assert complete["apiVersion"] == "audit.k8s.io/v1"
    assert (complete["level"], complete["stage"]) == ("RequestResponse", "ResponseComplete")
    assert complete["requestURI"] == CONFIGMAPS
    assert complete["verb"] == "create"
    assert complete["user"]["username"] == "shard-admin"
    assert "system:masters" in complete["user"]["groups"]
    assert complete["sourceIPs"] == ["127.0.0.1"]
    assert complete["userAgent"] == "tester/1.0"
    assert complete["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "name": "c",
        "apiVersion": "v1",
    }
    assert complete["responseStatus"] == {"metadata": {}, "code": 201}
    assert complete["requestObject"] == {"kind": "ConfigMap", "apiVersion": "v1", **body}
    assert complete["responseObject"] == made.json
    assert received["requestReceivedTimestamp"] == complete["requestReceivedTimestamp"]
    assert complete["stageTimestamp"] >= complete["requestReceivedTimestamp"]
    assert complete["annotations"] == {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": "",
        "kcp.io/cluster": "here",
        "kcp.io/path": "",
        "tenancy.kcp.io/workspace": "here",
    }
    assert received["annotations"] == {
        k: v for k, v in complete["annotations"].items() if "kcp.io" in k
    }


def test_the_path_of_a_workspace(audited: Audited) -> None:
    audited.start(f"--audit-log-path={audited.log}")
    root = audited.server.client(cluster="root")
    make_workspace(root, "team")
    inside(root, "team").get("/api/v1/namespaces/default", headers=named("team"))
    assert audited.complete("team")["annotations"]["kcp.io/path"] == "root:team"
    root.get("/api/v1/namespaces/default", headers=named("root"))
    assert audited.complete("root")["annotations"]["kcp.io/path"] == "", "as in kcp"
    wildcard = audited.server.client(cluster="*")
    wildcard.get("/api/v1/configmaps", headers=named("all"))
    assert not [k for k in audited.complete("all")["annotations"] if k.endswith("kcp.io/path")]


def test_every_authorizer_says_why(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    tim = client.with_token("user-token")
    assert tim.get(SECRETS, headers=named("refused")).status == 403
    event = audited.complete("refused")
    annotations = event["annotations"]
    assert annotations["authorization.k8s.io/decision"] == "forbid"
    assert annotations["authorization.k8s.io/reason"] == "access denied"
    assert annotations["request.auth.kcp.io/01-requiredgroups-decision"] == "NoOpinion"
    assert annotations["request.auth.kcp.io/02-content-decision"] == "NoOpinion"
    assert annotations["request.auth.kcp.io/02-content-reason"] == "no verb=access permission on /"
    assert event["responseStatus"]["reason"] == "Forbidden"
    assert event["user"]["username"] == "tim"
    role = {
        "metadata": {"name": "all"},
        "rules": [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
            {"nonResourceURLs": ["/"], "verbs": ["access"]},
        ],
    }
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tim"}],
    }
    base = "/apis/rbac.authorization.k8s.io/v1"
    assert client.post(f"{base}/clusterroles", role).status == 201
    assert client.post(f"{base}/clusterrolebindings", binding).status == 201
    assert tim.get(SECRETS, headers=named("granted")).status == 200
    annotations = audited.complete("granted")["annotations"]
    for stage in ("01-requiredgroups", "02-content", "03-systemcrd", "04-maxpermissionpolicy"):
        assert annotations[f"request.auth.kcp.io/{stage}-decision"] == "Allowed"
    assert annotations["request.auth.kcp.io/05-local-decision"] == "Allowed"
    assert "ClusterRoleBinding" in annotations["request.auth.kcp.io/05-local-reason"]
    review = {
        "spec": {"user": "tim", "resourceAttributes": {"verb": "list", "resource": "secrets"}}
    }
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert client.post(reviews, review, headers=named("review")).status == 201
    annotations = audited.complete("review")["annotations"]
    assert annotations["sar.auth.kcp.io/05-local-decision"] == "Allowed"


def test_refusals_before_anybody_is_known(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    client.with_token("wrong").get(SECRETS, headers=named("stranger"))
    (event,) = audited.events("stranger")
    assert event["stage"] == "ResponseStarted"
    assert event["user"] == {}
    assert event["responseStatus"]["code"] == 401


def test_a_path_that_leads_nowhere(audited: Audited) -> None:
    audited.start(f"--audit-log-path={audited.log}")
    audited.server.client(cluster="root:nowhere").get(SECRETS, headers=named("nowhere"))
    event = audited.complete("nowhere")
    assert event["stage"] == "ResponseComplete"
    assert event["user"]["username"] == "shard-admin"
    assert event["responseStatus"]["code"] == 404


def test_tokens_of_service_accounts(audited: Audited) -> None:
    """Which token was issued, and what kind of token of old was used or refused."""
    client = audited.start(f"--audit-log-path={audited.log}")
    accounts, note = (
        "/api/v1/namespaces/default/serviceaccounts",
        "authentication.k8s.io/legacy-token",
    )
    assert client.post(accounts, {"metadata": {"name": "bot"}}).status == 201

    def notes(audit_id: str) -> dict[str, str]:
        found = audited.complete(audit_id)["annotations"]
        return {key: value for key, value in found.items() if key.startswith("authentication")}

    issued = client.post(f"{accounts}/bot/token", {}, headers=named("issue")).json
    middle = issued["status"]["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    credential = f"JTI={claims['jti']}"
    assert notes("issue") == {"authentication.kubernetes.io/issued-credential-id": credential}
    secret: dict[str, Any] = {
        "metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "bot"}},
        "type": "kubernetes.io/service-account-token",
    }
    assert client.post(SECRETS, secret).status == 201
    data = eventually(lambda: client.get(f"{SECRETS}/s").json.get("data"))
    bot = client.with_token(base64.b64decode(data["token"]).decode())
    user = "system:serviceaccount:default:bot"
    for audit_id in ("first", "again"):  # the second time the connection knows the user
        bot.get(CONFIGMAPS, headers=named(audit_id))
        assert notes(audit_id) == {note: user, f"{note}-manual-secret": "s"}
    review = {"spec": {"token": base64.b64decode(data["token"]).decode()}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert client.post(path, review, headers=named("review")).status == 201
    assert notes("review") == {note: user, f"{note}-manual-secret": "s"}
    secret["metadata"]["name"] = "late"
    secret["metadata"]["labels"] = {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}
    assert client.post(SECRETS, secret).status == 201
    data = eventually(lambda: client.get(f"{SECRETS}/late").json.get("data"))
    review = {"spec": {"token": base64.b64decode(data["token"]).decode()}}
    assert client.post(path, review, headers=named("invalid")).status == 201
    late = client.with_token(review["spec"]["token"])
    assert late.get(CONFIGMAPS, headers=named("late")).status == 401
    for audit_id in ("invalid", "late"):
        assert notes(audit_id) == {note: user, f"{note}-invalidated": "late/default"}


def test_impersonation_names_both(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    headers = named("as-bob", **{"Impersonate-User": "bob", "Impersonate-Group": "devs"})
    client.get(SECRETS, headers=headers)
    event = audited.complete("as-bob")
    assert event["user"]["username"] == "shard-admin"
    assert event["impersonatedUser"]["username"] == "bob"
    assert "devs" in event["impersonatedUser"]["groups"]


def test_a_watch_has_a_beginning_and_an_end(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    reply = client.get(SECRETS, watch="true", timeoutSeconds=1, headers=named("watch"))
    assert reply.status == 200
    assert reply.header("audit-id") == "watch"
    eventually(lambda: len(audited.events("watch")) == 3)
    stages = [event["stage"] for event in audited.events("watch")]
    assert stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert {event["verb"] for event in audited.events("watch")} == {"watch"}


def test_nothing_secret_is_written_down(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    secret = {"metadata": {"name": "s"}, "stringData": {"password": HIDDEN}}
    assert client.post(SECRETS, secret, headers=named("secret")).status == 201
    client.get(f"{SECRETS}/s")
    client.patch(f"{SECRETS}/s", {"stringData": {"password": HIDDEN + "2"}})
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    review = client.post(reviews, {"spec": {"token": HIDDEN}}, headers=named("review"))
    assert review.status == 201
    account = "/api/v1/namespaces/default/serviceaccounts"
    client.post(account, {"metadata": {"name": "robot"}})
    issued = client.post(f"{account}/robot/token", {"spec": {}}, headers=named("token"))
    token = issued.json["status"]["token"]
    client.with_token(token).get(f"/version?token={token}&x=1", headers=named("bearer"))
    assert "requestObject" not in audited.complete("secret")
    assert audited.complete("review")["requestObject"]["spec"] == {"token": "REDACTED"}
    assert audited.complete("token")["responseObject"]["status"]["token"] == "REDACTED"
    assert audited.complete("bearer")["requestURI"] == "/version?token=REDACTED&x=1"
    written = audited.log.read_text()
    assert HIDDEN not in written
    assert token not in written
    assert audited.server.client().access.token not in written


def test_levels_stages_and_managed_fields(audited: Audited) -> None:
    rules = [{"level": "None", "verbs": ["get"]}, *RULES[1:]]
    client = audited.start(
        f"--audit-log-path={audited.log}",
        rules=rules,
        omitStages=["RequestReceived"],
        omitManagedFields=True,
    )
    service = {"metadata": {"name": "svc"}, "spec": {"ports": [{"port": 80}]}}
    client.post("/api/v1/namespaces/default/services", service, headers=named("service"))
    client.post(CONFIGMAPS, {"metadata": {"name": "c"}}, headers=named("create"))
    client.get(f"{CONFIGMAPS}/c", headers=named("get"))
    client.get(CONFIGMAPS, headers=named("list"))
    (event,) = audited.events("create")
    assert event["stage"] == "ResponseComplete"
    assert "managedFields" not in event["responseObject"]["metadata"]
    items = audited.complete("list")["responseObject"]["items"]
    assert items
    assert not [i for i in items if "managedFields" in i["metadata"]]
    assert audited.events("get") == []
    assert client.get(f"{CONFIGMAPS}/c").header("audit-id")


def test_the_file_is_rotated(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}", "--audit-log-maxsize=1")
    body = {"metadata": {"name": "c"}, "data": {"k": "x" * 200_000}}
    client.post(CONFIGMAPS, body)
    for _ in range(6):
        client.get(f"{CONFIGMAPS}/c")
    backups = list(audited.directory.glob("audit-20*.log"))
    assert backups
    for path in (audited.log, *backups):
        assert path.stat().st_size <= 1024 * 1024
        for line in path.read_text().splitlines():
            json.loads(line)


def test_batch_mode_writes_everything_by_the_end(audited: Audited) -> None:
    client = audited.start(f"--audit-log-path={audited.log}", "--audit-log-mode=batch")
    for number in range(300):
        client.get(SECRETS, headers=named(f"n{number}"))
    assert audited.server.stop() == 0
    ids = [json.loads(line)["auditID"] for line in audited.log.read_text().splitlines()]
    for number in range(300):
        assert ids.count(f"n{number}") == 2


def test_a_log_that_cannot_be_written(audited: Audited) -> None:
    """A full disk: the server goes on and says so; in strict mode it refuses to."""
    client = audited.start("--audit-log-path=/dev/full")
    assert client.get(SECRETS).status == 200
    metrics = audited.server.client().get("/metrics").body.decode()
    assert 'apiserver_audit_error_total{plugin="log"}' in metrics
    assert "No space left on device" in audited.server.log()
    audited.server.stop()
    audited.server.flags = (*audited.server.flags, "--audit-log-mode=blocking-strict")
    client = audited.server.start().client(cluster="here")
    refused = client.get(SECRETS)
    assert refused.status == 500
    assert refused.json["message"] == "Internal error occurred: failed to store audit event"
    metrics = audited.server.client().get("/metrics").body.decode()
    assert "apiserver_audit_requests_rejected_total 1" in metrics


class Receiver(ThreadingHTTPServer):
    """A webhook that can be told to refuse, or to take its time with what is complete."""

    daemon_threads = True

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.asked = threading.Event()
        self.may_complete = threading.Event()
        self.may_complete.set()
        self.is_refusing = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def ids(self) -> list[str]:
        return [item["auditID"] for item in self.items]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["items"][0]["stage"] == "ResponseComplete":
            self.server.asked.set()
            self.server.may_complete.wait(20)
        if self.server.is_refusing.is_set():
            self.send_response(503)
        else:
            self.server.items += body["items"]
            self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.shutdown()
    made.server_close()


def webhook_flags(audited: Audited, receiver: Receiver) -> tuple[str, ...]:
    config = audited.directory / "webhook.yaml"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{receiver.server_port}/"}}
        ],
        "users": [],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    config.write_text(yaml.safe_dump(document))
    return (f"--audit-webhook-config-file={config}", "--audit-webhook-initial-backoff=10ms")


def test_a_webhook_in_batches(audited: Audited, receiver: Receiver) -> None:
    flags = webhook_flags(audited, receiver)
    client = audited.start(*flags, "--audit-webhook-batch-max-wait=100ms")
    receiver.is_refusing.set()
    client.get(SECRETS, headers=named("one"))
    receiver.is_refusing.clear()
    client.get(SECRETS, headers=named("two"))
    eventually(lambda: receiver.ids().count("two") == 2)
    audited.server.stop()
    assert receiver.ids().count("two") == 2


def test_a_blocking_webhook_has_the_event_before_the_client_has_the_answer(
    audited: Audited, receiver: Receiver
) -> None:
    client = audited.start(
        *webhook_flags(audited, receiver), "--audit-webhook-mode=blocking-strict"
    )
    for number in range(5):
        assert client.get(SECRETS, headers=named(f"n{number}")).status == 200
        assert receiver.ids().count(f"n{number}") == 2
    body = {"metadata": {"name": "c"}}
    assert client.post(CONFIGMAPS, body, headers=named("made")).status == 201
    assert receiver.ids().count("made") == 2
    receiver.is_refusing.set()
    assert client.get(SECRETS).status == 500
    assert client.delete(f"{CONFIGMAPS}/c").status == 500
    receiver.is_refusing.clear()
    assert client.get(f"{CONFIGMAPS}/c").status == 200, "what was refused has not happened"


def test_a_client_that_leaves_does_not_take_its_event_along(
    audited: Audited, receiver: Receiver
) -> None:
    client = audited.start(*webhook_flags(audited, receiver), "--audit-webhook-mode=blocking")
    receiver.asked.clear()
    receiver.may_complete.clear()
    access = client.access
    connection = HTTPSConnection(
        access.host, access.port, context=ssl.create_default_context(cadata=access.ca)
    )
    headers = {**named("gone"), "Authorization": f"Bearer {access.token}"}
    body = json.dumps({"metadata": {"name": "c"}})
    headers["Content-Type"] = "application/json"
    connection.request("POST", f"/clusters/here{CONFIGMAPS}", body, headers)
    assert receiver.asked.wait(20)
    connection.close()
    receiver.may_complete.set()
    eventually(lambda: receiver.ids().count("gone") == 2)
    assert client.get(f"{CONFIGMAPS}/c").status == 200, "it was written, and the trail says so"


def test_settings_are_refused_with_a_reason(audited: Audited) -> None:
    with pytest.raises(RuntimeError, match="invalid audit log mode sometimes, allowed modes are"):
        audited.start(f"--audit-log-path={audited.log}", "--audit-log-mode=sometimes")
    with pytest.raises(RuntimeError, match="loading audit policy file: loaded illegal policy"):
        audited.start(f"--audit-log-path={audited.log}", rules=[])


@pytest.mark.parametrize("depth", [300, 900, 20_000])
def test_a_body_that_nests_too_deep_is_refused_and_told(audited: Audited, depth: int) -> None:
    client = audited.start(f"--audit-log-path={audited.log}")
    body = b'{"metadata":' + b'{"a":' * depth + b"1" + b"}" * (depth + 1)
    reply = client.post(CONFIGMAPS, body, headers=named("deep"))
    assert reply.status in (400, 422), reply  # it has no name, either
    eventually(lambda: '"deep"' in audited.log.read_text())
