"""Text streamed piece by piece is the text of all tokens, whatever the tokens are and wherever characters are split."""

from __future__ import annotations

import codecs

from hypothesis import example, given
from hypothesis import strategies as st

from infer_lab.engine.detokenizer import IncrementalDetokenizer


class ByteDecoder:
    """One token a byte: every character beyond ASCII is split, and random ids are mostly not text at all."""

    def decode(self, token_ids: list[int]) -> str:
        return bytes(token_ids).decode("utf-8", errors="replace")


class SpaceStrippingDecoder:
    """Words that carry their leading space, and a decoder that drops the space at the start of whatever it is given (as
    SentencePiece's does)."""

    words = (" a", " b", "c", " ", " de")

    def decode(self, token_ids: list[int]) -> str:
        return "".join(self.words[i] for i in token_ids).removeprefix(" ")


def _pieces(decoder: object, token_ids: list[int], sizes: list[int]) -> list[str]:
    detokenizer = IncrementalDetokenizer(decoder)  # type: ignore[arg-type]
    pieces, at = [], 0
    for size in [*sizes, len(token_ids)]:
        if at < len(token_ids):
            pieces.append(detokenizer.add(*token_ids[at : at + size]))
            at += size
    return [*pieces, detokenizer.flush()]


@given(text=st.text(max_size=40), sizes=st.lists(st.integers(1, 3), max_size=60))
@example(text="a😀b", sizes=[1] * 6)
@example(text="\ufffd\ufffdx", sizes=[1] * 7)
def test_pieces_of_split_characters_join_to_the_text(text: str, sizes: list[int]) -> None:
    assert (
        "".join(_pieces(ByteDecoder(), list(text.encode("utf-8", errors="ignore")), sizes))
        == text.encode("utf-8", errors="ignore").decode()
    )


@given(token_ids=st.lists(st.integers(0, 255), max_size=40), sizes=st.lists(st.integers(1, 3), max_size=60))
def test_pieces_of_bytes_that_are_no_text_join_to_what_one_decode_gives(token_ids: list[int], sizes: list[int]) -> None:
    assert "".join(_pieces(ByteDecoder(), token_ids, sizes)) == ByteDecoder().decode(token_ids)


@given(text=st.text(alphabet=st.characters(exclude_characters="\ufffd", exclude_categories=("Cs",)), max_size=40))
def test_no_piece_ever_shows_half_a_character(text: str) -> None:
    pieces = _pieces(ByteDecoder(), list(text.encode()), [1] * 200)
    assert not any("\ufffd" in piece for piece in pieces)
    shown = [piece for piece in pieces if piece]
    assert all(codecs.encode(piece, "utf-8") for piece in shown) and "".join(shown) == text


@given(token_ids=st.lists(st.integers(0, 4), max_size=30))
def test_leading_spaces_survive_a_decoder_that_strips_them(token_ids: list[int]) -> None:
    assert "".join(_pieces(SpaceStrippingDecoder(), token_ids, [1] * 40)) == SpaceStrippingDecoder().decode(token_ids)
