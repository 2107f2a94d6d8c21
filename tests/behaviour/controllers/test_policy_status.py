"""The status of a ValidatingAdmissionPolicy tells what its expressions get wrong."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def test_a_policy_with_a_wrong_field_is_warned_of(cluster: TestClient) -> None:
    """A field that the matched type does not have appears as an expression warning."""
    made = cluster.post(
        POLICIES,
        {
            "metadata": {"name": "typed"},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["configmaps"],
                        }
                    ]
                },
                "validations": [{"expression": "object.nope == 'x'"}],
            },
        },
    )
    assert made.status == 201, made

    def status() -> dict[str, object]:
        found: dict[str, object] = cluster.get(f"{POLICIES}/typed").json.get("status") or {}
        return found

    eventually(lambda: status().get("observedGeneration") == 1)
    warnings = status()["typeChecking"]["expressionWarnings"]  # type: ignore[index]
    assert "undefined field 'nope'" in warnings[0]["warning"]
