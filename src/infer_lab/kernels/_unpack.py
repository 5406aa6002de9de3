"""Integers to floats in registers, two at a time: the inner step of every weight-only kernel.

Why bit tricks: the convert instruction runs at a quarter of the rate of logic, and at M = 1 a W4A16 product on an H200 has fewer than
six instructions per weight before it stops being bound by memory. A float whose exponent puts the integer in its lowest mantissa
bits *is* the integer plus a constant: 0x4300 | q is the bfloat16 128 + q, 0x6400 | q the float16 1024 + q. So one
`lop3` ((word & mask) | magic) makes two weights, and one packed fused multiply-add takes the constant away again, exactly.
(The trick: Kim et al. 2022, "Who Says Elephants Can't Run"; FasterTransformer.)

Where PTX is False (CPU interpreter, float32 activations) the same values come from shifts, masks and converts.
"""

# pyright: reportArgumentType=false
from __future__ import annotations

import triton
import triton.language as tl


def _nibble(j: int, magic: str) -> str:
    if j == 0:
        return f"lop3.b32 $0, $1, 0x000F000F, {magic}, 0xEA;"
    return f"{{ .reg .b32 t; shr.u32 t, $1, {4 * j}; lop3.b32 $0, t, 0x000F000F, {magic}, 0xEA; }}"


def _byte(j: int, body: str) -> str:
    return f"{{ .reg .b32 t, v, s, c, d; {'mov.b32 t, $1' if j == 0 else 'shr.u32 t, $1, 8'}; {body} }}"


# bfloat16 has 7 bits after the point, one too few for a byte: 128 + the low seven bits, less 128 or 256 by the sign bit.
_BYTE_BF16 = (
    "lop3.b32 v, t, 0x007F007F, 0x43004300, 0xEA; lop3.b32 s, t, 0x00800080, 0x43004300, 0xEA;"
    " mov.b32 c, 0xBF80BF80; fma.rn.bf16x2 $0, s, c, v;"
)
# float16 has room: (byte ^ 0x80) is the byte plus 128, so 0x6400 | that is 1152 + the signed value.
_BYTE_FP16 = "lop3.b32 v, t, 0x00FF00FF, 0x64806480, 0x6A; mov.b32 c, 0x3C003C00; mov.b32 d, 0xE480E480; fma.rn.f16x2 $0, v, c, d;"

NIBBLES_BF16 = tl.constexpr(tuple(_nibble(j, "0x43004300") for j in range(4)))
NIBBLES_FP16 = tl.constexpr(tuple(_nibble(j, "0x64006400") for j in range(4)))
BYTES_BF16 = tl.constexpr(tuple(_byte(j, _BYTE_BF16) for j in range(2)))
BYTES_FP16 = tl.constexpr(tuple(_byte(j, _BYTE_FP16) for j in range(2)))
SUB_BF16 = tl.constexpr("{ .reg .b32 c; mov.b32 c, 0xBF80BF80; fma.rn.bf16x2 $0, $2, c, $1; }")
SUB_FP16 = tl.constexpr("{ .reg .b32 c; mov.b32 c, 0xBC00BC00; fma.rn.f16x2 $0, $2, c, $1; }")
MUL_BF16 = tl.constexpr("{ .reg .b32 c; mov.b32 c, 0x80008000; fma.rn.bf16x2 $0, $1, $2, c; }")
MUL_FP16 = tl.constexpr("mul.rn.f16x2 $0, $1, $2;")
FMA_BF16 = tl.constexpr("fma.rn.bf16x2 $0, $1, $2, $3;")
FMA_FP16 = tl.constexpr("fma.rn.f16x2 $0, $1, $2, $3;")


@triton.jit
def plane4(words, J: tl.constexpr, DTYPE: tl.constexpr, PTX: tl.constexpr):
    """Plane J (0..3) of 4-bit values 0..15 from int16 words, each plus `bias4`."""
    if PTX and tl.bfloat16 == DTYPE:
        return tl.inline_asm_elementwise(NIBBLES_BF16[J], "=r,r", [words], dtype=tl.bfloat16, is_pure=True, pack=2)
    elif PTX:
        return tl.inline_asm_elementwise(NIBBLES_FP16[J], "=r,r", [words], dtype=tl.float16, is_pure=True, pack=2)
    else:
        return ((words.to(tl.int32) >> (4 * J)) & 15).to(DTYPE)


@triton.jit
def bias4(DTYPE: tl.constexpr, PTX: tl.constexpr):
    """What `plane4` leaves on top of every value."""
    if not PTX:
        return 0.0
    elif tl.bfloat16 == DTYPE:
        return 128.0
    else:
        return 1024.0


@triton.jit
def plane8(words, J: tl.constexpr, DTYPE: tl.constexpr, PTX: tl.constexpr):
    """Plane J (0 or 1) of signed 8-bit values from int16 words, exact in bfloat16 and float16 too."""
    if PTX and tl.bfloat16 == DTYPE:
        return tl.inline_asm_elementwise(BYTES_BF16[J], "=r,r", [words], dtype=tl.bfloat16, is_pure=True, pack=2)
    elif PTX:
        return tl.inline_asm_elementwise(BYTES_FP16[J], "=r,r", [words], dtype=tl.float16, is_pure=True, pack=2)
    else:
        return (words >> (8 * J)).to(tl.int8).to(DTYPE)


@triton.jit
def subtract(a, b, PTX: tl.constexpr):
    """a - b in a's dtype, two values an instruction."""
    if PTX:
        asm: tl.constexpr = SUB_BF16 if a.dtype == tl.bfloat16 else SUB_FP16
        return tl.inline_asm_elementwise(asm, "=r,r,r", [a, b], dtype=a.dtype, is_pure=True, pack=2)
    else:
        return a - b


@triton.jit
def multiply(a, b, PTX: tl.constexpr):
    """a * b rounded to a's dtype, two values an instruction."""
    if PTX:
        asm: tl.constexpr = MUL_BF16 if a.dtype == tl.bfloat16 else MUL_FP16
        return tl.inline_asm_elementwise(asm, "=r,r,r", [a, b], dtype=a.dtype, is_pure=True, pack=2)
    else:
        return a * b


@triton.jit
def multiply_add(a, b, c, PTX: tl.constexpr):
    """a * b + c rounded once to a's dtype, two values an instruction."""
    if PTX:
        asm: tl.constexpr = FMA_BF16 if a.dtype == tl.bfloat16 else FMA_FP16
        return tl.inline_asm_elementwise(asm, "=r,r,r,r", [a, b, c], dtype=a.dtype, is_pure=True, pack=2)
    else:
        return (a.to(tl.float32) * b.to(tl.float32) + c.to(tl.float32)).to(a.dtype)
