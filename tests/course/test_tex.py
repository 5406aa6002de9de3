"""Formulas as plain text: what the course writes is readable without a renderer, and what is not a formula stays."""

import pytest

from infer_course.tex import without_tex


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("sum $\\sum_i \\lceil S_i / b \\rceil \\cdot b$ over", "sum Σᵢ ⌈ Sᵢ / b ⌉ · b over"),
        ("$$o_t = \\sum_{i \\le t} v_i .$$", "oₜ = Σ_(i ≤ t) vᵢ ."),
        ("$\\frac{q_t^\\top k_i}{\\sqrt{d}}$", "(qₜᵀ kᵢ) / √d"),
        ("$\\text{tokens/s} = \\frac{\\beta}{S\\,k}$", "tokens/s = β / (S k)"),
        ("$W_K$ and $2^{10}$ and $n^2$ and $k \\bar S$", "W_K and 2¹⁰ and n² and k S̄"),
        ("it costs $5 and $6", "it costs $5 and $6"),
        ("`$x_i$` and ``$y$``", "`$x_i$` and ``$y$``"),
        ("```\n$x_i$\n```\n$x_i$", "```\n$x_i$\n```\nxᵢ"),
        ("\\$x$", "\\$x$"),
        ("$\\unknown{x}$", "\\unknown{x}"),
    ],
)
def test_formulas(text: str, plain: str) -> None:
    assert without_tex(text) == plain
