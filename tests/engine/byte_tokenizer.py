"""A byte-level tokenizer without a model: a token for each byte, some for parts of characters."""

from __future__ import annotations

from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE

from infer_lab.tokenizer import Tokenizer


def byte_tokenizer() -> Tokenizer:
    """A byte-level tokenizer as files have them: a token for each byte, some whole and half characters, special and plain added tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letter = {byte: _letter(byte) for byte in range(256)}
    more = [
        "".join(letter[b] for b in text) for text in (b" the", "\ufffd".encode(), "é".encode(), b"\xf0\x9f", b"\x98\x80", b"\xe2\x80\x8d")
    ]
    fast = FastTokenizer(BPE({token: i for i, token in enumerate([*alphabet, *more])}, []))
    fast.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    fast.add_special_tokens([AddedToken("<end>", normalized=False)])
    fast.add_tokens([AddedToken("<plain>", normalized=False), AddedToken("日本 x", normalized=False)])
    return Tokenizer(fast, None, {})


def _letter(byte: int) -> str:
    visible = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
    hidden = [b for b in range(256) if not (33 <= b <= 126 or 161 <= b <= 172 or b >= 174)]
    return chr(byte) if visible else chr(256 + hidden.index(byte))


BYTE_TOKENIZER = byte_tokenizer()
