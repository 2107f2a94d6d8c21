"""kcp's own test vectors."""

import pytest

from pykcp.machinery.kcp import hashes


@pytest.mark.parametrize(
    ("username", "expected"),
    [
        ("alice", "v1u4alow0iv9"),
        ("bob", "2okdry95y5lkv"),
        ("", "36ks9xj4a2n61"),
        ("user-with-dash", "1e25681jymk1l"),
        ("user172", "0f9mt7goyif7"),
    ],
)
def test_home_cluster_name(username: str, expected: str) -> None:
    assert hashes.home_cluster_name(username) == expected


def test_cluster_name_is_sixteen_base36_digits() -> None:
    name = hashes.cluster_name(bytes(range(32)))
    assert len(name) == 16
    assert set(name) <= set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert name != hashes.cluster_name(bytes(32))


def test_leading_zero_bytes_are_kept_as_digits() -> None:
    assert hashes.base36_padded(b"\0\0\x24") == "0010"
    assert hashes.base36(b"\0\0\x24") == "10"


def test_claim_labels() -> None:
    assert hashes.claim_label_value("", "configmaps") == "3QVjs6pfBjMpLEVYYhysJnroYGsQGlWm05E4qe"
    assert (
        hashes.claim_label_value("apps", "deployments", "deadbeef")
        == "4CpOMiJ5JL9ZC4cG8ne7nGNQbSOEUiwZ89KHal"
    )
    prefix = "claimed.internal.apis.kcp.io/"
    assert hashes.claim_label_key("root", "tenancy.kcp.io") == (
        prefix + "bmCdly9xXiUpEHe3ypvDwvXMTfoVZUE92mqAQf"
    )
    assert hashes.claim_label_key("abcd1234", "my-export") == (
        prefix + "phGj1BkmdNY3LKTrtFc1KGLYTBs8Nt50p8PIU"
    )
    assert hashes.REFLEXIVE_CLAIM_VALUE == "LstvmbbzVDDOn90ZbhzSQO5U3DMCf88h1pZ"
    assert hashes.export_label_value("root", "tenancy.kcp.io") == (
        "bmCdly9xXiUpEHe3ypvDwvXMTfoVZUE92mqAQf"
    )


def test_initializer_and_terminator_labels() -> None:
    digest = "2eadcbf778956517ec99fd1c1c32a9b13cbae759770fc37c341c7fe8"
    key, value = hashes.initializer_label("pluto")
    assert key == "initializer.internal.kcp.io/2eadcbf778956517ec99fd1c1c32a9b13cb"
    assert value == digest
    key, value = hashes.terminator_label("pluto")
    assert key.startswith("terminator.internal.kcp.io/2eadcbf778956517ec99fd1c1c32a9b13cb")
    assert len(key) == 63
    assert value == digest


def test_identity() -> None:
    key = hashes.identity_key(bytes(range(32)))
    assert len(key) == 43
    assert "=" not in key
    # sha256 of the empty text, a well-known constant.
    assert hashes.identity_hash("").startswith("e3b0c44298fc1c149afbf4c8996fb924")


def test_shard_hash_and_binding_name() -> None:
    assert len(hashes.shard_hash("root")) == 8
    name = hashes.default_binding_name("abcd", "root", "tenancy.kcp.io")
    assert name.startswith("tenancy.kcp.io-")
    suffix = name.removeprefix("tenancy.kcp.io-")
    assert len(suffix) == 5
    assert suffix == suffix.lower()
    assert len(hashes.default_binding_name("a", "b", "x" * 300)) == 253
