"""Text of a growing token sequence, piece by piece, never half a character.

Why not decode each token: a character may be spread over several tokens, and some tokenizers drop a leading space from whatever
they decode. So a window of tokens is decoded twice, without and with the new ones, and the difference is the new text. While the
end is an incomplete character (decoded as U+FFFD) it is held back; `flush` gives it up at the end. The pieces joined are the text
of all tokens decoded at once.
"""

from __future__ import annotations

from typing import Protocol

_INCOMPLETE = "\ufffd"


class Decoder(Protocol):
    def decode(self, token_ids: list[int]) -> str: ...


class IncrementalDetokenizer:
    """_shown: tokens whose text has been given out. _window: where decoding starts, some tokens before, for the tokenizer's spacing."""

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self._token_ids: list[int] = []
        self._window = 0
        self._shown = 0

    def add(self, *token_ids: int) -> str:
        """The text that these tokens complete."""
        self._token_ids.extend(token_ids)
        return self._advance(final=False)

    def flush(self) -> str:
        """What was held back, as it is."""
        return self._advance(final=True)

    def _advance(self, final: bool) -> str:
        before = self._tokenizer.decode(self._token_ids[self._window : self._shown])
        after = self._tokenizer.decode(self._token_ids[self._window :])
        if after.endswith(_INCOMPLETE) and not final:
            return ""
        self._window, self._shown = self._shown, len(self._token_ids)
        return after[len(before) :]
