"""Formulas as plain text, for places without a formula renderer: `$\\lceil S_i / b \\rceil \\cdot b$` → ⌈Sᵢ / b⌉ · b.

Not a TeX parser: it knows the few commands that the course uses, and leaves what it does not know as it is.
"""

from __future__ import annotations

import re

_CODE_OR_MATH = re.compile(
    r"(`{3,}.*?`{3,}|(`+)(?!`).+?(?<!`)\2(?!`))|\$\$(.+?)\$\$|(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<![\s\\])\$(?!\d)", re.DOTALL
)
_SIGNS = {
    "cdot": "·", "times": "×", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "approx": "≈", "sum": "Σ", "prod": "Π", "in": "∈",
    "dots": "…", "ldots": "…", "cdots": "…", "to": "→", "rightarrow": "→", "infty": "∞", "lceil": "⌈", "rceil": "⌉", "lfloor": "⌊",
    "rfloor": "⌋", "top": "ᵀ", "pm": "±", "propto": "∝", "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε",
    "theta": "θ", "lambda": "λ", "mu": "µ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "pi": "π", "Delta": "Δ", "Sigma": "Σ",
    "ll": "≪", "gg": "≫", "mid": "|", "log": "log", "exp": "exp", "max": "max", "min": "min", "quad": " ", "qquad": " ", "ell": "ℓ",
}  # fmt: skip
_SUB = dict(zip("0123456789aehijklmnoprstuvx+-=", "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ₊₋₌", strict=True))
_SUP = dict(zip("0123456789+-=ninT", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼ⁿⁱⁿᵀ", strict=True)) | {"ᵀ": "ᵀ"}
_GROUP = r"\{([^{}]*)\}"


def without_tex(text: str) -> str:
    """Markdown with its formulas as plain text; code stays as it is."""
    return _CODE_OR_MATH.sub(lambda match: match[1] or _plain(match[3] or match[4]), text)


def _plain(tex: str) -> str:
    tex = re.sub(r"\\(?:left|right|[bB]igg?[lr]?|displaystyle)(?![a-zA-Z])|\\!|\\(?:begin|end)\{\w+\*?\}|&", "", tex)
    tex = re.sub(r"\\[,;:]", " ", tex)
    tex = re.sub(r"\\[{}%_#$]", lambda match: match[0][1], tex)
    tex = re.sub(r"\\([a-zA-Z]+)", lambda match: _SIGNS.get(match[1], match[0]), tex)
    tex = re.sub(r"\\bar\s*(\w)", "\\1\u0304", re.sub(r"\\sqrt\s+(\w)", r"√\1", tex))
    for _ in range(6):  # groups inside groups, from the innermost out
        tex = re.sub(rf"\\(?:text|mathrm|mathbf|mathit|operatorname|textbf){_GROUP}", r"\1", tex)
        tex = re.sub(rf"\\[dt]?frac{_GROUP}{_GROUP}", lambda match: f"{_term(match[1])} / {_term(match[2])}", tex)
        tex = re.sub(rf"\\sqrt{_GROUP}", lambda match: f"√{_term(match[1])}", tex)
        tex = re.sub(rf"([_^])(?:{_GROUP}|(\S))", _script, tex)
    return " ".join(tex.replace("\\\\", " ").split())


def _term(inner: str) -> str:
    inner = inner.strip()
    return inner if re.fullmatch(r"√?[\w.,ᵀ]+[₀-₉ᵢⱼₜₐₑ]*", inner) else f"({inner})"


def _script(match: re.Match[str]) -> str:
    inner = (match[2] if match[2] is not None else match[3]).strip()
    table = _SUB if match[1] == "_" else _SUP
    if inner in ("{", "\\") or "\\" in inner:
        return match[0]
    if all(sign in table for sign in inner.replace(" ", "")):
        return "".join(table[sign] for sign in inner.replace(" ", ""))
    return f"{'_' if match[1] == '_' else '^'}{inner}" if len(inner) == 1 or inner.isalnum() else f"{match[1]}({inner})"
