"""Reads the GGUF container: a header of typed key/values, a table of tensors, then the tensors' bytes.

Why not the `gguf` package's reader: it walks the 98,000 strings of a tokenizer one numpy view at a time (4 s for SmolLM2);
`struct` over a memory map takes 0.1 s, so nothing needs to be converted and cached. And a damaged file gets an error that
says where it is damaged. Layout after the GGUF specification, versions 2 and 3, little endian:

    magic "GGUF" · u32 version · u64 tensors · u64 key/values
    key/value: string key · u32 type · value            string: u64 length · UTF-8 bytes
    tensor:    string name · u32 n · u64 dims[n] (fastest first) · u32 type · u64 offset
    padding to `general.alignment`, then data at data_start + offset
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from infer_lab.errors import CheckpointError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMS = 4

# type number: (name, elements per block, bytes per block); others are named so that the refusal can name them
TENSOR_TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 3: ("Q4_1", 32, 20), 8: ("Q8_0", 32, 34), 30: ("BF16", 1, 2)}
_OTHER_TYPES = {
    2: "Q4_0", 6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS",
    17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32",
    27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of the table. shape is (out, in): the reverse of the file's dims. start and nbytes locate its bytes in the file."""

    name: str
    type: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


class GgufFile:
    """The parsed file: `fields`, `tensors`, and `data`, the memory map that tensor bytes are read from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.size = path.stat().st_size
                magic = file.read(4)
                if magic != b"GGUF":
                    raise CheckpointError(f"{path}: not a GGUF file: it begins with {magic!r}, and a GGUF file begins with b'GGUF'")
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
        self._at = 4
        (version,) = self._unpack("I")
        if version not in (2, 3):
            raise CheckpointError(f"{path}: GGUF version {version} cannot be read; versions 2 and 3 can (little endian)")
        num_tensors, num_fields = self._unpack("QQ")
        self.fields: dict[str, object] = {}
        for _ in range(num_fields):
            key = self._string()
            self.fields[key] = self._value(*self._unpack("I"))
        table = [self._tensor_row() for _ in range(num_tensors)]
        alignment = self.fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise CheckpointError(f"{path}: general.alignment is {alignment!r}, not a positive whole number; the file is damaged")
        data_start = -(-self._at // alignment) * alignment
        if len({row[0] for row in table}) < len(table):
            raise CheckpointError(f"{path}: two tensors have the same name; the file is damaged")
        self.tensors = {name: self._tensor(name, dims, type_, data_start + offset) for name, dims, type_, offset in table}

    def close(self) -> None:
        self.data.close()

    def _need(self, nbytes: int) -> int:
        start = self._at
        if start + nbytes > self.size:
            raise CheckpointError(
                f"{self.path}: the file ends inside its header: {nbytes} bytes wanted at {start}, the file has {self.size}."
                " It is truncated or damaged; fetch it again"
            )
        self._at += nbytes
        return start

    def _unpack(self, codes: str) -> tuple:
        codes = "<" + codes
        return struct.unpack_from(codes, self.data, self._need(struct.calcsize(codes)))

    def _string(self) -> str:
        (length,) = self._unpack("Q")
        start = self._need(length)
        try:
            return self.data[start : start + length].decode("utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{self.path}: the string at byte {start} is not UTF-8; the file is damaged") from error

    def _value(self, type_: int) -> object:
        if type_ in _SCALARS:
            return self._unpack(_SCALARS[type_])[0]
        if type_ == _STRING:
            return self._string()
        if type_ == _ARRAY:
            item, length = self._unpack("IQ")
            if item in _SCALARS:
                self._need(0 if length * struct.calcsize("<" + _SCALARS[item]) <= self.size else self.size + 1)
                return list(self._unpack(f"{length}{_SCALARS[item]}"))
            if item == _STRING:
                return [self._string() for _ in range(length)]
        raise CheckpointError(f"{self.path}: unknown value type {type_} before byte {self._at}; the file is damaged")

    def _tensor_row(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        (num_dims,) = self._unpack("I")
        if num_dims > _MAX_DIMS:
            raise CheckpointError(f"{self.path}: tensor {name!r} claims {num_dims} dimensions (at most {_MAX_DIMS}); the file is damaged")
        dims = self._unpack(f"{num_dims}Q")
        type_, offset = self._unpack("IQ")
        return name, dims, type_, offset

    def _tensor(self, name: str, dims: tuple[int, ...], type_: int, start: int) -> GgufTensor:
        if type_ not in TENSOR_TYPES:
            known = ", ".join(known_name for known_name, _, _ in TENSOR_TYPES.values())
            raise CheckpointError(
                f"{self.path}: tensor {name!r} is of type {_OTHER_TYPES.get(type_, f'number {type_}')}, which cannot be read here;"
                f" readable types: {known}. Take another quantization of the model, such as Q8_0 or F16"
            )
        type_name, block, block_bytes = TENSOR_TYPES[type_]
        elements = 1
        for dim in dims:
            elements *= dim
        if not dims or elements == 0 or dims[0] % block:
            raise CheckpointError(f"{self.path}: tensor {name!r} has shape {dims}, impossible for {type_name}; the file is damaged")
        nbytes = elements // block * block_bytes
        if start + nbytes > self.size:
            raise CheckpointError(
                f"{self.path}: tensor {name!r} should end at byte {start + nbytes}, but the file has {self.size}."
                " It is truncated; fetch it again"
            )
        return GgufTensor(name, type_name, tuple(reversed(dims)), start, nbytes)
