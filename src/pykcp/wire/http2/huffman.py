"""The Huffman code of HPACK (RFC 7541, appendix B), decoded in steps of eight octets.

The code is canonical, so the lengths alone define it: codes are handed out by
length, then by symbol.  Decoding walks the code's tree; what a step of eight
octets does from a given node is remembered, and so are whole strings.  Clients
send the same tokens and the same beginnings of paths over and over, so nearly
all octets are decoded by a dictionary lookup.  Both memories are bounded: they
are thrown away when full, which an attacker can force at the price of sending
us what he could have sent anyway.
"""

from __future__ import annotations

from collections.abc import Generator

EOS = 256

_SYMBOLS_BY_LENGTH: dict[int, str] = {
    5: "303132616365696f7374",
    6: "20252d2e2f333435363738393d415f62646667686c6d6e707275",
    7: "3a42434445464748494a4b4c4d4e4f5051525354555657596a6b71767778797a",
    8: "262a2c3b585a",
    10: "212228293f",
    11: "272b7c",
    12: "233e",
    13: "0024405b5d7e",
    14: "5e7d",
    15: "3c607b",
    19: "5cc3d0",
    20: "808283a2b8c2e0e2",
    21: "99a1a7acb0b1b3d1d8d9e3e5e6",
    22: "8184858688929a9ca0a3a4a9aaadb2b5b9babbbdbec4c6e4e8e9",
    23: "0187898a8b8c8d8f93959697989b9d9ea5a6a8aeafb4b6b7bcbfc5e7ef",
    24: "098e9091949fabced7e1eced",
    25: "c7cfeaeb",
    26: "c0c1c8c9cacdd2d5dadbeef0f2f3ff",
    27: "cbccd3d4d6dddedff1f4f5f6f7f8fafbfcfdfe",
    28: "020304050607080b0c0e0f1011121314151718191a1b1c1d1e1f7fdcf9",
    30: "0a0d16",
}
"""For each code length the symbols that have it, as hexadecimal octets (EOS has 30 bits)."""

_STEP = 8
_Step = tuple[int, str]
"""The node reached and the text decoded on the way."""


class HuffmanError(ValueError):
    """The octets are no Huffman-coded string: EOS inside, or padding that is not a bit of EOS."""


def code_table() -> list[tuple[int, int]]:
    """Code and length in bits of every symbol, EOS last."""
    table = [(0, 0)] * (EOS + 1)
    code = 0
    previous = 0
    for length, symbols in _SYMBOLS_BY_LENGTH.items():
        for symbol in (*bytes.fromhex(symbols), *((EOS,) if length == 30 else ())):
            code = (code + 1) << (length - previous) if previous else 0
            previous = length
            table[symbol] = (code, length)
    return table


class _Tree:
    """The code as a binary tree: `children[node][bit]` is a node, or `~symbol` for a leaf."""

    def __init__(self) -> None:
        self.children: list[list[int]] = [[0, 0]]
        for symbol, (code, length) in enumerate(code_table()):
            self._plant(symbol, code, length)
        self.may_end_at = self._padding_nodes()

    def _plant(self, symbol: int, code: int, length: int) -> None:
        node = 0
        for shift in range(length - 1, 0, -1):
            bit = code >> shift & 1
            if not self.children[node][bit]:
                self.children[node][bit] = len(self.children)
                self.children.append([0, 0])
            node = self.children[node][bit]
        self.children[node][code & 1] = ~symbol

    def _padding_nodes(self) -> frozenset[int]:
        """Where a string may stop: the root, and up to seven ones below it."""
        node, nodes = 0, {0}
        for _ in range(7):
            node = self.children[node][1]
            nodes.add(node)
        return frozenset(nodes)

    def walk(self, node: int, octets: bytes) -> _Step:
        text = []
        children = self.children
        for octet in octets:
            for shift in range(7, -1, -1):
                node = children[node][octet >> shift & 1]
                if node < 0:
                    if node == ~EOS:
                        raise HuffmanError("EOS inside a string")
                    text.append(chr(~node))
                    node = 0
        return node, "".join(text)


class Huffman:
    """A decoder to be shared by all connections of a listener."""

    __slots__ = ("_may_end_at", "_octet_steps", "_steps", "_strings", "_tree")

    max_steps = 8192
    max_strings = 2048
    max_string_length = 2048

    def __init__(self) -> None:
        self._tree = _Tree()
        self._may_end_at = self._tree.may_end_at
        self._octet_steps: dict[int, _Step] = {}
        self._steps: dict[tuple[int, bytes], _Step] = {}
        self._strings: dict[bytes, str] = {}

    def decode(self, octets: bytes) -> str:
        """The text (latin-1) that the octets stand for."""
        known = self._strings.get(octets)
        if known is not None:
            return known
        text = self._decode(octets)
        if len(octets) <= self.max_string_length:
            if len(self._strings) >= self.max_strings:
                self._strings.clear()
            self._strings[octets] = text
        return text

    def _decode(self, octets: bytes) -> str:
        node = 0
        texts = []
        steps = self._steps
        for start in range(0, len(octets), _STEP):
            key = (node, octets[start : start + _STEP])
            step = steps.get(key)
            if step is None:
                step = self._learn(key)
            node, text = step
            texts.append(text)
        if node not in self._may_end_at:
            raise HuffmanError("bad padding")
        return "".join(texts)

    def decode_in_steps(self, octets: bytes, size: int) -> Generator[None, None, str]:
        """A long string, `size` octets at a go. What is decoded here is not remembered."""
        node = 0
        texts = []
        for start in range(0, len(octets), size):
            for octet in octets[start : start + size]:
                node, text = self._small_step(node, octet)
                texts.append(text)
            texts = ["".join(texts)]
            yield
        if node not in self._may_end_at:
            raise HuffmanError("bad padding")
        return texts[0]

    def _small_step(self, node: int, octet: int) -> _Step:
        """At most 65,536 of these exist."""
        small = self._octet_steps
        step = small.get(node << 8 | octet)
        if step is None:
            step = small[node << 8 | octet] = self._tree.walk(node, bytes((octet,)))
        return step

    def _learn(self, key: tuple[int, bytes]) -> _Step:
        """Take a step octet by octet."""
        node, octets = key
        texts = []
        for octet in octets:
            node, text = self._small_step(node, octet)
            texts.append(text)
        if len(self._steps) >= self.max_steps:
            self._steps.clear()
        step = self._steps[key] = (node, "".join(texts))
        return step
