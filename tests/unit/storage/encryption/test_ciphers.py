"""The local ciphers: known answers, round trips, and what they refuse."""

from __future__ import annotations

import pytest

from pykcp.storage.encryption.ciphers import CIPHERS, AesCbc, AesGcm, Secretbox
from pykcp.storage.encryption.errors import Unreadable
from pykcp.storage.encryption.salsa import xor, xsalsa20_stream

KEY = bytes(range(32))
LENGTHS = (0, 1, 15, 16, 17, 63, 64, 65, 2047, 5000)


def test_xsalsa20_gives_the_published_key_stream() -> None:
    # The first key of NaCl's own tests ("Cryptography in NaCl", section 8).
    key = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
    nonce = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
    expected = "eea6a7251c1e72916d11c2cb214d3c252539121d8e234e652d651fa4c8cff880"
    assert xsalsa20_stream(key, nonce, 32).hex() == expected


def test_xsalsa20_of_many_blocks_begins_like_that_of_one() -> None:
    nonce = bytes(24)
    whole = xsalsa20_stream(KEY, nonce, 64 * 40)
    assert xsalsa20_stream(KEY, nonce, 64) == whole[:64]
    assert len({whole[i : i + 64] for i in range(0, len(whole), 64)}) == 40


def test_secretbox_opens_what_nacl_sealed() -> None:
    # The published box of the same document: tag and text.
    key = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
    nonce = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
    plain = bytes.fromhex(
        "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a"
        "1ac728d45e6c61296cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057"
        "e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52f0a089bc76897040"
        "e082f937763848645e0705"
    )
    box = bytes.fromhex(
        "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4"
        "476fb8c531a1186ac0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738"
        "b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de"
        "56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"
    )
    assert Secretbox(key).open(nonce + box) == plain


@pytest.mark.parametrize("kind", sorted(CIPHERS))
@pytest.mark.parametrize("length", LENGTHS)
def test_what_was_sealed_opens_again(kind: str, length: int) -> None:
    cipher = CIPHERS[kind](KEY)
    plain = bytes(i % 251 for i in range(length))
    sealed = cipher.seal(plain)
    assert cipher.open(sealed) == plain
    assert cipher.seal(plain) != sealed, "the same text must not seal to the same bytes"
    if length > 8:
        assert plain not in sealed


@pytest.mark.parametrize("kind", ["aesgcm", "secretbox"])
def test_one_changed_bit_is_noticed_anywhere(kind: str) -> None:
    cipher = CIPHERS[kind](KEY)
    sealed = cipher.seal(b"forty-two bottles of something quite secret")
    for place in range(len(sealed)):
        broken = bytearray(sealed)
        broken[place] ^= 1
        with pytest.raises(Unreadable):
            cipher.open(bytes(broken))


@pytest.mark.parametrize("kind", ["aesgcm", "secretbox"])
def test_another_key_does_not_open_it(kind: str) -> None:
    sealed = CIPHERS[kind](KEY).seal(b"text")
    with pytest.raises(Unreadable):
        CIPHERS[kind](bytes(32)).open(sealed)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the stored data was shorter than the required size"),
        (bytes(15), "the stored data was shorter than the required size"),
        (bytes(17), "the stored data is not a multiple of the block size"),
        (bytes(16), "invalid PKCS7 data (empty or not padded)"),
    ],
)
def test_aescbc_says_what_is_wrong(data: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why.replace("(", r"\(").replace(")", r"\)")):
        AesCbc(KEY).open(data)


@pytest.mark.parametrize("cipher", [AesGcm(KEY), Secretbox(KEY)])
def test_short_data_is_refused(cipher: AesGcm | Secretbox) -> None:
    with pytest.raises(Unreadable, match="shorter than the required size"):
        cipher.open(b"short")


def test_xor_keeps_leading_and_trailing_zeros() -> None:
    assert xor(b"\0a\0", b"\0\0\0\0") == b"\0a\0"
