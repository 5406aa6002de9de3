"""Text of a growing token sequence, piece by piece, never half a character; the pieces joined are the text of all tokens decoded at once.

Why not decode each token: a character may be spread over several. Why not decode everything again with each token: that is quadratic.

Byte-level tokenizers (SmolLM2, Llama 3, Qwen) make it simple: a token is some bytes, and an incremental UTF-8 decoder holds back the bytes
of an unfinished character, three at most. It knows one from a U+FFFD that the model really wrote. For all other tokenizers only
`decode` is known, and a short window of tokens is decoded again with each new one.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Protocol

from infer_lab.tokenizer import Tokenizer

_REPLACEMENT = "\ufffd"
_PATIENCE = 8  # tokens that are held back at most, while they end in U+FFFD
_CHARACTER = 4  # bytes of the longest character, so tokens at most


class Detokenizer(Protocol):
    def add(self, *token_ids: int) -> str:
        """The text that these tokens complete."""
        ...

    def flush(self) -> str:
        """What was held back, as it is."""
        ...


def detokenizer_for(tokenizer: Tokenizer) -> Detokenizer:
    return ByteDetokenizer(tokenizer.token_bytes) if tokenizer.is_byte_level else WindowDetokenizer(tokenizer.decode)


class ByteDetokenizer:
    """token_bytes: what a token adds to the text. _begun: the bytes of an unfinished character."""

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._begun = b""

    def add(self, *token_ids: int) -> str:
        return self._decode(b"".join(map(self._token_bytes, token_ids)), final=False)

    def flush(self) -> str:
        return self._decode(b"", final=True)

    def _decode(self, new: bytes, final: bool) -> str:
        known = self._begun + new
        text, used = codecs.utf_8_decode(known, "replace", final)
        self._begun = known[used:]
        return text


class WindowDetokenizer:
    """The window: `_shown` tokens of context, whose text was given out (a decoder may drop the space in front of the first token that it
    gets, so it never gets a new one alone), then those whose text is not complete. _given: characters of the window's text given out.

    A text that ends in U+FFFD may be an unfinished character. If it stays so for _PATIENCE tokens it is garbage, or the model writes
    U+FFFD; then it is given out up to a place that splits no character.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._shown = 0
        self._given = 0

    def add(self, *token_ids: int) -> str:
        pieces = []
        for token in token_ids:  # one by one, so that the text does not depend on how many come at a time
            self._tokens.append(token)
            pieces.append(self._advance(final=False))
        return "".join(pieces)

    def flush(self) -> str:
        return self._advance(final=True)

    def _advance(self, final: bool) -> str:
        text = self._decode(self._tokens)
        complete = text if final else text.rstrip(_REPLACEMENT)
        if len(complete) < len(text) and len(self._tokens) - self._shown > _PATIENCE:
            split = self._find_split(text)
            before = self._decode(self._tokens[:split])
            piece = text[self._given : max(len(before), len(complete))]
            self._move_window(split, len(before), self._given + len(piece))
            return piece
        piece = complete[self._given :]
        if len(complete) < len(text):
            self._given += len(piece)
        elif piece:
            self._move_window(len(self._tokens), len(text), len(text))
        elif text or len(self._tokens) > _PATIENCE:
            # special tokens; were they the context, a space could get lost (but a token without text may be the space at the very start)
            del self._tokens[self._shown or _PATIENCE :]
        return piece

    def _move_window(self, end: int, length: int, given: int) -> None:
        """The new ones of the tokens up to `end`, whose text has `length` characters, are the context now. given: characters given out."""
        context = self._tokens[self._shown : end]
        self._tokens = context + self._tokens[end:]
        self._shown = len(context)
        self._given = len(self._decode(context)) + given - length

    def _find_split(self, text: str) -> int:
        """The last place that splits no character: text before and after it, decoded apart, are the text. What crosses it would have to
        end within a character's length, so that must be there already."""
        last = len(self._tokens) - _CHARACTER
        for split in range(last, self._shown, -1):
            if self._decode(self._tokens[:split]) + self._decode(self._tokens[split:]) == text:
                return split
        return last
