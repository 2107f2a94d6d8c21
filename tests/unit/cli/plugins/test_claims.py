"""Permission claims: what is shown, what is warned of, what an answer changes."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.apis.bind import binding, checked, claim
from pykcp.cli.plugins.apis.claims import answered, table
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.workspace.claim_warnings import claim_name, warnings


def _binding(exported, answers):
    return {
        "metadata": {"name": "b"},
        "spec": {"permissionClaims": answers},
        "status": {"exportPermissionClaims": exported},
    }


SECRETS = {"resource": "secrets", "verbs": ["get"]}
NOT_SPECIFIED = (
    "Warning: claim for secrets exported but not specified on APIBinding b",
    "Add this claim to the APIBinding's Spec.",
)
NOT_ANSWERED = "Warning: claim for secrets specified on APIBinding b but not accepted or rejected."


@pytest.mark.parametrize(
    ("exported", "answers", "expected"),
    [
        ([], [], []),
        ([SECRETS], [{**SECRETS, "state": "Accepted"}], []),
        ([SECRETS], [{**SECRETS, "state": "Rejected"}], []),
        ([SECRETS], [SECRETS], [NOT_ANSWERED]),
        (
            [SECRETS],
            [],
            [
                *NOT_SPECIFIED,
                NOT_ANSWERED,
                (
                    "Warning: allowed verbs () on claim for secrets on APIBinding b "
                    "do not match expected verbs ()."
                ),
            ],
        ),
        (
            [SECRETS],
            [{"resource": "secrets", "verbs": ["*"], "state": "Accepted"}],
            [
                (
                    "Warning: allowed verbs (*) on claim for secrets on APIBinding b "
                    "do not match expected verbs (get)."
                )
            ],
        ),
    ],
)
def test_warnings(exported, answers, expected):
    assert list(warnings([_binding(exported, answers)])) == expected


def test_another_identity_is_another_claim():
    exported = {"resource": "cowboys", "group": "w.dev", "identityHash": "a", "verbs": ["*"]}
    answer = {**exported, "identityHash": "b", "state": "Accepted"}
    assert next(warnings([_binding([exported], [answer])])).startswith(
        "Warning: claim for cowboys.w.dev:a exported but not specified"
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"resource": "secrets"}, "secrets"),
        ({"resource": "secrets", "identityHash": "x"}, "secrets"),
        ({"resource": "c", "group": "g.io"}, "c.g.io"),
        ({"resource": "c", "group": "g.io", "identityHash": "x"}, "c.g.io:x"),
    ],
)
def test_names_of_claims(given, name):
    assert claim_name(given) == name


TWO = [
    {"resource": "secrets", "verbs": ["get", "list"], "state": "Accepted"},
    {
        "resource": "cows",
        "group": "w.dev",
        "identityHash": "h",
        "verbs": ["*"],
        "state": "Rejected",
    },
]


def test_table():
    assert table([_binding([], TWO)], has_verbs=True) == [
        "APIBINDING   GROUP-RESOURCE   VERBS      STATUS",
        "b            secrets          get,list   Accepted",
        "b            cows.w.dev       *          Rejected",
    ]
    assert table([_binding([], TWO)], has_verbs=False)[0] == "APIBINDING   GROUP-RESOURCE   STATUS"


@pytest.mark.parametrize(
    ("resource", "identity", "changed"),
    [
        ("secrets", "", [True, False]),
        ("secrets.core", "", [True, False]),
        ("cows.w.dev", "", [False, True]),
        ("", "h", [False, True]),
        ("secrets", "h", [False, True]),
    ],
)
def test_answers(resource, identity, changed):
    result = answered(_binding([], TWO), "New", resource=resource, identity=identity)
    states = [one["state"] == "New" for one in result["spec"]["permissionClaims"]]
    assert states == changed


def test_answers_to_claims_that_do_not_exist():
    for resource, identity, about in (("cows", "", 'for "cows"'), ("", "x", 'identity hash "x"')):
        with pytest.raises(PluginError, match=about):
            answered(_binding([], TWO), "New", resource=resource, identity=identity)


def _flags(**given):
    flags = {
        "accept-permission-claim": [],
        "reject-permission-claim": [],
        "accept-all-permission-claims": False,
        "reject-all-permission-claims": False,
    }
    return flags | {name.replace("_", "-"): value for name, value in given.items()}


def test_claims_on_the_command_line():
    flags = _flags(accept_permission_claim=["secrets.core"], reject_permission_claim=["c.g.io"])
    assert checked("root:a:export", flags) == [
        claim("", "secrets", "Accepted"),
        claim("g.io", "c", "Rejected"),
    ]


@pytest.mark.parametrize(
    ("reference", "flags", "complaint"),
    [
        ("", _flags(), "`root:ws:apiexport_object` reference to bind is required as an argument"),
        ("export", _flags(), "fully qualified reference to workspace where APIExport exists"),
        ("Bad:export", _flags(), "fully qualified reference"),
        (
            "root:e",
            _flags(accept_permission_claim=["a", "b.c", "d"]),
            (
                'invalid accepted permission claims: [invalid permission claim "a" '
                'invalid permission claim "d"]'
            ),
        ),
        (
            "root:e",
            _flags(accept_permission_claim=["a.b"], reject_permission_claim=["a.b"]),
            "accepted permission claim a.b conflicts with rejected permission claim a.b",
        ),
        (
            "root:e",
            _flags(accept_all_permission_claims=True, reject_all_permission_claims=True),
            "cannot use both --accept-all-permission-claims and --reject-all-permission-claims",
        ),
        (
            "root:e",
            _flags(accept_all_permission_claims=True, reject_permission_claim=["a.b"]),
            "cannot use --accept-all-permission-claims together with --reject-permission-claim",
        ),
    ],
)
def test_command_lines_that_make_no_sense(reference, flags, complaint):
    with pytest.raises(PluginError) as caught:
        checked(reference, flags)
    assert str(caught.value).startswith(complaint)


def test_binding_in_both_versions():
    claims = [claim("", "secrets", "Accepted")]
    new = binding("v1alpha2", "mine", "root:a", "e", claims)
    assert new["spec"] == {
        "reference": {"export": {"path": "root:a", "name": "e"}},
        "permissionClaims": claims,
    }
    old = binding("v1alpha1", "mine", "root:a", "e", claims)
    assert old["spec"]["permissionClaims"] == [
        {"group": "", "resource": "secrets", "state": "Accepted", "all": True}
    ]
    with pytest.raises(PluginError, match=r"^v1 is not supported by this plugin$"):
        binding("v1", "mine", "root:a", "e", claims)
