"""What the tests of matrix products share: hostile tensors, and tolerances that an answer of lower precision fails."""

from __future__ import annotations

import torch

# Relative norm of (answer - float64 reference rounded once to the dtype). The only rounding allowed is the last one: a sum kept in the
# dtype itself, TF32 products (3e-4) or weights rounded to a narrower type all miss these by an order of magnitude.
ROUNDED_ONCE = {torch.float32: 2e-6, torch.float16: 1.5e-4, torch.bfloat16: 8e-4}


def relative_error(answer: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of the reference; infinite where the answer is not finite (NaN never passes)."""
    if not bool(torch.isfinite(answer).all()):
        return float("inf")
    scale = expected.double().norm().item()
    return (answer.double() - expected.double()).norm().item() / (scale if scale > 0 else 1.0)


def assert_rounded_once(answer: torch.Tensor, expected: torch.Tensor) -> None:
    """`expected` is the float64 reference."""
    error = relative_error(answer, expected.to(answer.dtype))
    assert error < ROUNDED_ONCE[answer.dtype], f"relative error {error:.2e}"


def seeded(*shape: int, dtype: torch.dtype, device: torch.device, seed: int = 0) -> torch.Tensor:
    """The same numbers on every device: drawn on the CPU."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def inside_nan(t: torch.Tensor, row_gap: int = 5, column_gap: int = 3) -> torch.Tensor:
    """The same matrix as a view into a larger one that is NaN (or -128 for int8) everywhere else."""
    rows, columns = t.shape
    big = torch.full((rows + 2, columns + row_gap + column_gap), -128 if t.dtype == torch.int8 else float("nan"), device=t.device)
    big = big.to(t.dtype)
    view = big[1 : rows + 1, column_gap : column_gap + columns]
    view.copy_(t)
    return view


def poisoned(m: int, n: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """An output full of NaN, so that an element that nobody writes is seen."""
    return torch.full((m, n), float("nan"), dtype=dtype, device=device)
