"""What a quantization scheme stores for each weight. Imports no torch.

    w8a16  8-bit integers in groups, symmetric; activations as they are. Next to no loss, without calibration.
    w4a16  4-bit integers in groups, with zero points; activations as they are. The fewest bytes; small models feel it.
    fp8    float8 e4m3 weights and activations, a scale for each weight row and each token (taken from the token as it comes).
    int8   the same in 8-bit integers: for chips without FP8, and worse where activations have outliers.
    gguf   nothing is quantized: matrices that a GGUF file holds as Q4_1 or Q8_0 (groups of 32) are computed with as they are.

All round to nearest, and only the matrices of the layers: embedding, head, norms and biases keep the model's dtype, as most
released quantized checkpoints do. Ideas: round-to-nearest in groups is the baseline of GPTQ (Frantar et al. 2022) and AWQ (Lin et
al. 2023), its zero points too; scales for each token and each row are LLM.int8()'s vector-wise ones (Dettmers et al. 2022), and e4m3 is
from Micikevicius et al. 2022. The scales of w8a16 and w4a16 have 16 bits, those of fp8 and int8 32.
"""

from __future__ import annotations

from dataclasses import dataclass

from infer_lab.calculator import quantized_weight_bytes
from infer_lab.config import ModelConfig
from infer_lab.errors import UnsupportedOptionError

SCHEMES = ("w8a16", "w4a16", "fp8", "int8")  # that can be made of any checkpoint
AS_STORED = "gguf"
GROUPS = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class Scheme:
    """group_size: columns that share a scale; 0 is one scale for a whole row. bits 0: as many as the checkpoint has."""

    name: str
    bits: int
    group_size: int
    scale_bits: int
    zero_bits: int = 0

    @classmethod
    def of(cls, name: str, group_size: int = 128) -> Scheme:
        """group_size counts for w8a16 and w4a16. UnsupportedOptionError names what there is."""
        if name not in (*SCHEMES, AS_STORED):
            raise UnsupportedOptionError(f"quantization must be one of {', '.join(SCHEMES)}, {AS_STORED}, or None; got {name!r}")
        if group_size not in GROUPS:
            raise UnsupportedOptionError(f"quantization_group must be one of {', '.join(map(str, GROUPS))}; got {group_size!r}")
        if name == "w8a16":
            return cls(name, 8, group_size, scale_bits=16)
        if name == "w4a16":
            return cls(name, 4, group_size, scale_bits=16, zero_bits=16)
        if name == AS_STORED:
            return cls(name, 0, 0, scale_bits=0)
        return cls(name, 8, 0, scale_bits=32)

    def __str__(self) -> str:
        return f"{self.name}-g{self.group_size}" if self.group_size else self.name

    def weight_bytes(self, model: ModelConfig, kept_bytes: int, stored_bits: float = 0.0) -> int:
        """Bytes of the whole model by the calculator; kept_bytes: of an element that is not quantized, stored_bits: see Checkpoint."""
        if self.name == AS_STORED:
            return round(quantized_weight_bytes(model, stored_bits, group_size=0, kept_bytes=kept_bytes).base)
        group = self.group_size or model.hidden_size
        return round(quantized_weight_bytes(model, self.bits, group, self.scale_bits, self.zero_bits, kept_bytes=kept_bytes).base)
