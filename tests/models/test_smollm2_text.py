"""SmolLM2's own tokens, in any order and any company, stream to what its tokenizer decodes at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.engine.detokenizer import ByteDetokenizer, WindowDetokenizer, detokenizer_for
from infer_lab.models.checkpoint import open_checkpoint
from infer_lab.tokenizer import Tokenizer

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    found = open_checkpoint("smollm2").tokenizer
    assert found is not None and found.is_byte_level
    return found


def test_the_bytes_of_every_token_are_what_the_tokenizer_decodes(tokenizer: Tokenizer) -> None:
    for token in range(tokenizer.vocab_size):
        assert tokenizer.token_bytes(token).decode("utf-8", errors="replace") == tokenizer.decode([token])


@settings(deadline=None)
@given(token_ids=st.lists(st.one_of(st.integers(0, 49_151), st.integers(0, 300)), max_size=40), data=st.data())
def test_any_tokens_in_any_pieces_stream_to_one_decode(tokenizer: Tokenizer, token_ids: list[int], data: st.DataObject) -> None:
    whole = tokenizer.decode(token_ids)
    for detokenizer in (detokenizer_for(tokenizer), WindowDetokenizer(tokenizer.decode)):
        text, at = "", 0
        while at < len(token_ids):
            size = data.draw(st.integers(1, 5))
            text += detokenizer.add(*token_ids[at : at + size])
            at += size
        assert text + detokenizer.flush() == whole


@settings(deadline=None)
@given(text=st.text(max_size=60))
def test_text_goes_in_and_comes_out_without_half_a_character(tokenizer: Tokenizer, text: str) -> None:
    detokenizer = detokenizer_for(tokenizer)
    assert isinstance(detokenizer, ByteDetokenizer)
    token_ids = tokenizer.encode(text.encode("utf-8", errors="ignore").decode())
    whole = tokenizer.decode(token_ids)  # not always the text: some bytes have no token in this vocabulary
    pieces = [detokenizer.add(token) for token in token_ids] + [detokenizer.flush()]
    assert "".join(pieces) == whole and sum(piece.count("\ufffd") for piece in pieces) == whole.count("\ufffd")
