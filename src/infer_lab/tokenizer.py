"""Text to token ids and back, and the chat template that turns messages into one prompt.

Why our own from GGUF: the file names its pre-tokenizer (`tokenizer.ggml.pre`), and llama.cpp's reading of that name is the truth; the
conversion in transformers ignores it for SmolLM2 (digits come out in groups, and one string in nine differs). A Hugging Face folder brings
its tokenizer.json, which is used as it is.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Regex, decoders, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from infer_lab.errors import CheckpointError, UserError

Message = Mapping[str, Any]

# llama.cpp's regular expressions by the name of the pre-tokenizer; {digits} is how many digits go into one piece
_GPT4_STYLE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CONTROL, _USER_DEFINED = 3, 4  # tokenizer.ggml.token_type


class Tokenizer:
    """Encodes, decodes and renders chats. Special tokens written in a text are read as special tokens (as llama.cpp does with chats)."""

    def __init__(self, fast: FastTokenizer, chat_template: str | None, special_tokens: Mapping[str, str]) -> None:
        self._fast = fast
        self._special_tokens = dict(special_tokens)
        self.chat_template = chat_template
        self._template = _compile(chat_template) if chat_template else None
        self.is_byte_level = isinstance(fast.decoder, decoders.ByteLevel)
        self._special_ids = {i for i, token in fast.get_added_tokens_decoder().items() if token.special}
        self._token_bytes: dict[int, bytes] = {}

    @property
    def vocab_size(self) -> int:
        return self._fast.get_vocab_size()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """add_special_tokens: put the model's BOS in front where the model wants one; False for a rendered chat, which has its own."""
        try:
            return self._fast.encode(text, add_special_tokens=add_special_tokens).ids
        except TypeError:  # a surrogate without its other half: bytes that were no UTF-8, or text cut in the middle
            bad = next((c for c in text if "\ud800" <= c <= "\udfff"), None)
            raise UserError(f"the text holds {bad!r}, which is not a character; it was not valid UTF-8 where it came from") from None

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self._fast.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def token(self, token_id: int) -> str | None:
        """How the vocabulary writes this token (byte-level alphabet, not text)."""
        return self._fast.id_to_token(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        """What this token adds to a text: UTF-8, maybe a part of a character; nothing for special tokens. For byte-level tokenizers only:
        there `decode(ids)` is these bytes joined, decoded with U+FFFD for what is no UTF-8."""
        assert self.is_byte_level
        known = self._token_bytes.get(token_id)
        if known is None:
            token = "" if token_id in self._special_ids else self._fast.id_to_token(token_id) or ""
            try:
                known = bytes(_BYTE_OF[letter] for letter in token)
            except KeyError:  # an added token, written as it is
                known = token.encode()
            self._token_bytes[token_id] = known
        return known

    def render_chat(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
        """The prompt text for `messages` ({"role", "content"} each), open for the assistant's answer."""
        if self._template is None:
            raise UserError("this model has no chat template; use generate() with a plain prompt (on the command line: --raw)")
        if not messages:
            raise UserError("a chat needs at least one message")
        for message in messages:
            ok = isinstance(message, Mapping) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
            if not ok:
                raise UserError(f'a message is {{"role": "user", "content": "text"}}, got {message!r}')
        try:
            return self._template.render(
                {**self._special_tokens, "messages": list(messages), "add_generation_prompt": add_generation_prompt}
            )
        except Exception as error:  # a template is a program out of a file: it may divide by zero, loop, add what cannot be added
            raise UserError(f"the model's chat template fails with these messages: {error or type(error).__name__}") from error

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        return self.encode(self.render_chat(messages), add_special_tokens=False)


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as one visible character: those that are visible in Latin-1 as themselves, the others from U+0100 on
    (GPT-2's table)."""
    visible = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _compile(source: str) -> jinja2.Template:
    """Sandboxed: a template comes from a file of unknown origin. Settings and helpers are those that published templates count on."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return environment.from_string(source)
    except (jinja2.TemplateError, RecursionError, ValueError) as error:
        raise CheckpointError(f"the model's chat template cannot be read: {error}") from error


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    if name == "smollm":
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
        )
    digits = {"llama-bpe": "{1,3}", "qwen2": ""}.get(name)
    if digits is None:
        raise CheckpointError(f"the GGUF pre-tokenizer {name!r} is not known here; known: smollm, llama-bpe, qwen2")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_GPT4_STYLE.format(digits=digits)), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def tokenizer_from_gguf(fields: Mapping[str, Any]) -> Tokenizer:
    """Byte-level BPE out of the GGUF's own vocabulary and merges (model "gpt2"); CheckpointError for other kinds of tokenizer."""
    prefix = "tokenizer.ggml."
    kind = fields.get(prefix + "model")
    if kind != "gpt2":
        raise CheckpointError(f"the GGUF tokenizer is of kind {kind!r}; only byte-level BPE ('gpt2') can be read here")
    try:
        tokens, merges = fields[prefix + "tokens"], fields[prefix + "merges"]
    except KeyError as error:
        raise CheckpointError(f"the GGUF file has no field {error.args[0]!r}; its tokenizer is incomplete") from error
    pre = str(fields.get(prefix + "pre", "default"))
    types = fields.get(prefix + "token_type") or [1] * len(tokens)
    _check_fields(tokens, merges, types)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    try:
        fast = FastTokenizer(BPE(vocabulary, pairs, ignore_merges=pre == "llama-bpe"))
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"the GGUF file's merges do not go with its tokens: {error}; the file is damaged") from error
    fast.pre_tokenizer = _pre_tokenizer(pre)  # type: ignore[assignment]
    fast.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    fast.add_special_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types, strict=True) if kind == _CONTROL])
    fast.add_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types, strict=True) if kind == _USER_DEFINED])
    special = {}
    for role in ("bos", "eos", "unknown", "padding"):
        token_id = fields.get(f"{prefix}{role}_token_id")
        if isinstance(token_id, int) and 0 <= token_id < len(tokens):
            special[{"unknown": "unk", "padding": "pad"}.get(role, role) + "_token"] = tokens[token_id]
    if fields.get(prefix + "add_bos_token") and "bos_token" in special:
        bos = special["bos_token"]
        with_bos = TemplateProcessing(single=f"{bos}:0 $A:0", special_tokens=[(bos, vocabulary[bos])])
        fast.post_processor = with_bos  # type: ignore[assignment]
    template = fields.get("tokenizer.chat_template")
    return Tokenizer(fast, template if isinstance(template, str) else None, special)


def _check_fields(tokens: object, merges: object, types: object) -> None:
    def require(ok: bool, message: str) -> None:
        if not ok:
            raise CheckpointError(f"the GGUF file's tokenizer is damaged: {message}")

    require(isinstance(tokens, list) and all(isinstance(token, str) for token in tokens), "its tokens are not a list of texts")
    require(isinstance(merges, list) and all(isinstance(m, str) and " " in m for m in merges), "its merges are not a list of pairs")
    assert isinstance(tokens, list)
    require(len(set(tokens)) == len(tokens), f"{len(tokens) - len(set(tokens))} tokens are there twice")
    require(isinstance(types, list) and len(types) == len(tokens), "it has not one type for each token")


def tokenizer_from_folder(folder: Path) -> Tokenizer | None:
    """tokenizer.json of a Hugging Face folder with its chat template; None when the folder has none (token ids in, token ids out)."""
    path = folder / "tokenizer.json"
    if not path.exists():
        return None
    try:
        fast = FastTokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"{path}: cannot be read as a tokenizer: {error}") from error
    settings: Any = {}
    settings_path = folder / "tokenizer_config.json"
    if settings_path.exists():
        try:
            settings = json.loads(settings_path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{settings_path}: not valid JSON: {error}") from error
        if not isinstance(settings, dict):
            raise CheckpointError(f"{settings_path}: should hold a JSON object")
    special = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = settings.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            special[name] = value
    template = settings.get("chat_template")
    if isinstance(template, list):  # several named templates; "default" is the one for plain chat
        named = [entry for entry in template if isinstance(entry, dict)]
        template = next((entry.get("template") for entry in named if entry.get("name") == "default"), None)
    template_file = folder / "chat_template.jinja"
    if template_file.exists():
        try:
            template = template_file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{template_file}: cannot be read: {error}") from error
    if not isinstance(template, str | None):
        raise CheckpointError(f"{settings_path}: chat_template should be text, and is {template!r}")
    return Tokenizer(fast, template, special)
