"""Text streamed piece by piece is the text of all tokens, whatever the tokens are and wherever characters are split. (Casebook 17.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from byte_tokenizer import BYTE_TOKENIZER
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders
from tokenizers.models import BPE

from infer_lab.engine.detokenizer import ByteDetokenizer, Detokenizer, WindowDetokenizer, detokenizer_for

AWKWARD = [
    "a😀b",
    "👩‍👩‍👧‍👦 👨🏽‍🚀 🇩🇪",  # joined by U+200D, skin tones, flags
    "\ufffd\ufffdx",  # the model wrote them itself
    "\ufffd" * 30,
    "e\u0301 Zoe\u0308",
    "中文😀한글 ﷽",
    "",
]
GARBAGE = [
    b"\xed\xa0\x80\xed\xb0\x80",  # surrogates, which are no UTF-8
    b"\xf0\x9f\x98",  # a character that never ends
    b"\x80" * 40,
    b"\xf0\x9f" * 20,
    b"\xc0\xaf\xf8\x88\x80\x80\x80 \xfe\xff",
    b"\xe4\xbd\xe4\xbd\xa0\xf0\x9f\x98\x80\xe4",
]


def decode_bytes(token_ids: Sequence[int]) -> str:
    """One token a byte: every character beyond ASCII is split, and random ids are mostly not text at all."""
    return bytes(token_ids).decode("utf-8", errors="replace")


def decode_stripping(token_ids: Sequence[int]) -> str:
    """Words that carry their leading space, one special token, and a decoder that drops the space at the start of whatever it is given
    (as SentencePiece's does)."""
    words = (" a", " b", "c", " ", " de", "")
    return "".join(words[i] for i in token_ids).removeprefix(" ")


KINDS: dict[str, Callable[[], Detokenizer]] = {
    "bytes": lambda: ByteDetokenizer(lambda token: bytes([token])),
    "window": lambda: WindowDetokenizer(decode_bytes),
}
kinds = pytest.mark.parametrize("kind", list(KINDS))


def _pieces(detokenizer: Detokenizer, token_ids: Sequence[int], sizes: Sequence[int]) -> list[str]:
    pieces, at = [], 0
    for size in [*sizes, len(token_ids)]:
        if at < len(token_ids):
            pieces.append(detokenizer.add(*token_ids[at : at + size]))
            at += size
    return [*pieces, detokenizer.flush()]


@kinds
@pytest.mark.parametrize("text", AWKWARD, ids=ascii)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_casebook_17_a_split_character_is_not_dropped_doubled_or_halved(kind: str, text: str, size: int) -> None:
    pieces = _pieces(KINDS[kind](), list(text.encode()), [size] * 200)
    assert "".join(pieces) == text
    assert sum(piece.count("\ufffd") for piece in pieces) == text.count("\ufffd")


@kinds
@pytest.mark.parametrize("raw", GARBAGE, ids=repr)
def test_bytes_that_are_no_text_give_what_one_decode_gives(kind: str, raw: bytes) -> None:
    for size in (1, 2, 3, 50):
        assert "".join(_pieces(KINDS[kind](), list(raw), [size] * 200)) == decode_bytes(raw)


@kinds
@given(text=st.text(max_size=40), sizes=st.lists(st.integers(1, 3), max_size=60))
def test_pieces_of_split_characters_join_to_the_text(kind: str, text: str, sizes: list[int]) -> None:
    raw = text.encode("utf-8", errors="ignore")
    assert "".join(_pieces(KINDS[kind](), list(raw), sizes)) == raw.decode()


@kinds
@given(
    token_ids=st.lists(st.one_of(st.integers(0, 255), st.sampled_from(b"\xf0\x9f\x98\x80\xe4\xbd\xa0\xef\xbf\xbd")), max_size=60),
    sizes=st.lists(st.integers(1, 3), max_size=60),
)
@example(token_ids=list(b"\xef\xbf" + b"\x80" * 20), sizes=[1] * 30)
def test_pieces_of_bytes_that_are_no_text_join_to_what_one_decode_gives(kind: str, token_ids: list[int], sizes: list[int]) -> None:
    assert "".join(_pieces(KINDS[kind](), token_ids, sizes)) == decode_bytes(token_ids)


@kinds
@given(text=st.text(alphabet=st.characters(exclude_characters="\ufffd", exclude_categories=("Cs",)), max_size=40))
def test_no_piece_ever_shows_half_a_character(kind: str, text: str) -> None:
    pieces = _pieces(KINDS[kind](), list(text.encode()), [1] * 200)
    assert not any("\ufffd" in piece for piece in pieces) and "".join(pieces) == text


@given(token_ids=st.lists(st.integers(0, 5), max_size=30))
def test_leading_spaces_survive_a_decoder_that_strips_them(token_ids: list[int]) -> None:
    assert "".join(_pieces(WindowDetokenizer(decode_stripping), token_ids, [1] * 40)) == decode_stripping(token_ids)


@given(
    token_ids=st.lists(st.integers(0, BYTE_TOKENIZER.vocab_size + 2), max_size=40),
    sizes=st.lists(st.integers(1, 4), max_size=40),
)
def test_a_byte_level_tokenizers_tokens_stream_to_its_own_decode(token_ids: list[int], sizes: list[int]) -> None:
    assert "".join(_pieces(detokenizer_for(BYTE_TOKENIZER), token_ids, sizes)) == BYTE_TOKENIZER.decode(token_ids)


def test_a_replacement_character_that_the_model_wrote_is_shown_at_once() -> None:
    assert ByteDetokenizer(lambda token: "\ufffd".encode()).add(0) == "\ufffd"


@pytest.mark.parametrize(
    "token_ids",
    [[104] * 2000, list("中文😀".encode()) * 200, list("\ufffd".encode()) * 700, [0x80] * 2000, [0xF0, 0x9F] * 1000],
    ids=["ascii", "split", "replacement characters", "stray bytes", "half characters"],
)
def test_the_work_is_linear_in_the_length_whatever_the_text(token_ids: list[int]) -> None:
    work = [0]

    def decode(ids: Sequence[int]) -> str:
        work[0] += len(ids)
        return decode_bytes(ids)

    assert "".join(_pieces(WindowDetokenizer(decode), token_ids, [1] * len(token_ids))) == decode_bytes(token_ids)
    assert work[0] < 60 * len(token_ids)


def test_a_thousand_special_tokens_in_a_row_cost_no_more_than_others() -> None:
    longest = [0]

    def decode(ids: Sequence[int]) -> str:
        longest[0] = max(longest[0], len(ids))
        return decode_stripping(ids)

    for token_ids in ([0, *[5] * 1000, 1], [*[5] * 1000, 0, 1]):
        assert "".join(_pieces(WindowDetokenizer(decode), token_ids, [1] * 1002)) == "a b"
    assert longest[0] <= 12


def _byte_fallback() -> FastTokenizer:
    """As in Llama 2: bytes are tokens of their own, and one that is no text spoils all bytes beside it, those of whole characters too."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"▁the": 256, "a": 257, "日": 258}
    fast = FastTokenizer(BPE(vocabulary, [], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    fast.decoder = decoders.Sequence(steps)  # type: ignore[assignment]
    return fast


_BYTES = st.sampled_from(["é", "😀", "日"]).map(lambda letter: list(letter.encode()))


@given(
    tokens=st.lists(st.one_of(_BYTES, st.integers(0, 258).map(lambda token: [token])), max_size=20).map(
        lambda parts: [token for part in parts for token in part]
    ),
    sizes=st.lists(st.integers(1, 40), max_size=10),
)
@example(tokens=[*"日".encode(), 200, 257], sizes=[3])
def test_the_text_does_not_depend_on_how_many_tokens_come_at_a_time(tokens: list[int], sizes: list[int]) -> None:
    """So a stream equals an answer that is read at its end, and accepted drafts change no letter."""
    fast = _byte_fallback()

    def text(sizes: Sequence[int]) -> str:
        return "".join(_pieces(WindowDetokenizer(lambda ids: fast.decode(list(ids))), tokens, sizes))

    assert text(sizes) == text([1] * len(tokens))
