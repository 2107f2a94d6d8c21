"""Media types: what a client takes and what it gets."""

from __future__ import annotations

import pytest

from pykcp.machinery.status import StatusError
from pykcp.server.media.negotiation import (
    JSON,
    PROTOBUF,
    SERVED,
    YAML,
    Accepted,
    choose,
    for_errors,
    media_type_of,
    parse_accept,
)

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Accepted(JSON)),
        ("*/*", Accepted(JSON)),
        ("application/yaml", Accepted(YAML)),
        ("*/*, application/yaml", Accepted(YAML)),
        ("*/*;q=0.9, application/yaml;q=0.5", Accepted(YAML)),
        ("application/json;q=0.1, */*;q=0.2", Accepted(JSON)),
        ("application/yaml;q=oops, application/json;q=0.5", Accepted(JSON)),
        ("application/*, application/yaml", Accepted(YAML)),
        (f"{TABLE};v=v7, application/yaml", Accepted(YAML)),
        ('application/json;as=Table;g="meta.k8s.io";v=v1, application/yaml', Accepted(YAML)),
        (PROTOBUF, Accepted(PROTOBUF)),
        (f"{PROTOBUF}, application/json", Accepted(PROTOBUF)),
        (f"{PROTOBUF};q=0.5, application/json", Accepted(JSON)),
        (f"{PROTOBUF}, */*", Accepted(PROTOBUF)),
        ("application/json;q=0.5, application/yaml", Accepted(YAML)),
        ("text/html, application/json;q=0.1", Accepted(JSON)),
        (TABLE, Accepted(JSON, "Table", "v1")),
        (f"{TABLE},application/json", Accepted(JSON, "Table", "v1")),
        ("application/json;as=Table;g=meta.k8s.io;v=v1beta1", Accepted(JSON, "Table", "v1beta1")),
        ("application/json;as=Table;g=meta.k8s.io;v=v7, application/json", Accepted(JSON)),
        ("application/json;as=Nothing;g=meta.k8s.io;v=v1, application/json", Accepted(JSON)),
        (
            "application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Accepted(YAML, "PartialObjectMetadata", "v1"),
        ),
        (
            f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Accepted(PROTOBUF, "PartialObjectMetadata", "v1"),
        ),
        (f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1, application/json", Accepted(JSON)),
        ("application/json;pretty=1", Accepted(JSON, pretty=True)),
        ("application/json;stream=watch", Accepted(JSON, is_stream=True)),
        ("application/json;stream=other, application/yaml", Accepted(YAML)),
        ("application/json;sv=v1", Accepted(JSON)),
        ("application/json;sv=v2, application/yaml", Accepted(YAML)),
        ("application/yaml;stream=watch, application/json", Accepted(JSON)),
    ],
)
def test_choices(header: str, expected: Accepted) -> None:
    """The best of what the client takes."""
    assert choose(header, SERVED) == expected


@pytest.mark.parametrize(
    "header",
    ["text/html", "application/cbor", "application/json;as=Nothing", "Application/YAML", "*"],
)
def test_nothing_fits(header: str) -> None:
    """406 that names what there is."""
    with pytest.raises(StatusError) as caught:
        choose(header, SERVED)
    assert caught.value.code == 406
    assert ", ".join(SERVED) in caught.value.message


def test_what_can_be_watched_says_so() -> None:
    """The 406 of a collection names the streams, too."""
    with pytest.raises(StatusError, match="protobuf, application/json;stream=watch, "):
        choose("text/html", SERVED, has_streams=True)


def test_custom_resources_have_no_protobuf() -> None:
    """A resource without protobuf does not serve it, whatever is asked."""
    with pytest.raises(StatusError):
        choose(PROTOBUF, SERVED[:2])
    assert choose(f"{PROTOBUF},application/json", SERVED[:2]) == Accepted(JSON)
    assert choose("application/*", SERVED[:2], takes_any=True) == Accepted(JSON)


def test_metadata_of_custom_resources_has_protobuf() -> None:
    """Metadata is the same for all kinds."""
    metadata = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    found = choose(f"{PROTOBUF};{metadata},application/json;{metadata}", SERVED[:2])
    assert found == Accepted(PROTOBUF, "PartialObjectMetadata", "v1")
    with pytest.raises(StatusError):
        choose(f"{PROTOBUF};{metadata}", SERVED, frozenset())


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Accepted(JSON)),
        (f"{PROTOBUF},application/json", Accepted(PROTOBUF)),
        ("application/json", Accepted(JSON)),
        ("text/html", None),
        (TABLE, None),
        ("application/json;sv=v1", None),
        (f"{TABLE},application/json", Accepted(JSON)),
    ],
)
def test_errors_are_sent_in_a_form_that_fits(header: str, expected: Accepted | None) -> None:
    """A Status has no other form than itself."""
    assert for_errors(header) == expected


def test_clauses_are_sorted_by_quality_then_by_place() -> None:
    """Equal qualities keep their order; nonsense counts as 0; what names no media type is left out."""
    found = parse_accept("a/a;q=0.1, b/b;q=oops, c/c, d/d;q=0.1,, e, f/, g/g/g")
    assert [c.media_type for c in found] == ["c/c", "a/a", "d/d", "b/b"]
    many = ", ".join(f"a/{number}" for number in range(20))
    assert [c.media_type for c in parse_accept(f"*/*, {many}")][-1] == "*/*"


def test_discovery_takes_any_form() -> None:
    """Its handlers stand beside upstream's router."""
    assert choose("*", SERVED, takes_any=True) == Accepted(JSON)
    assert choose("application / yaml", SERVED, takes_any=True) == Accepted(YAML)


def test_media_type_of() -> None:
    """Parameters and letter case do not matter."""
    assert media_type_of("Application/JSON; charset=utf-8") == JSON


def test_thousands_of_media_types_are_not_looked_at() -> None:
    """The first ones are; every pair of the others would be compared."""
    many = ",".join(f"{PROTOBUF};as=Table;g={number}" for number in range(30_000))
    assert choose(f"application/yaml,{many}", SERVED) == Accepted(YAML)
    with pytest.raises(StatusError):
        choose(f"{many},application/yaml", SERVED)
    assert len(parse_accept(many)) < 1000
    assert parse_accept("x" * 100_000) == ()
