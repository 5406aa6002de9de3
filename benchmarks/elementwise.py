"""Norm, activation, rotary embedding with the KV write, log-probabilities and sampling beside their peers, in one run on one machine.

python benchmarks/elementwise.py                      # on the GPU
python benchmarks/elementwise.py --record             # and write measurements/<device>/elementwise.json
python benchmarks/elementwise.py --device cpu --quick # tiny sizes in the CPU interpreter, to see that it runs

Peers: the same operations in torch compiled by Inductor, and sampling by sorting in plain torch. The last line of output is one
JSON document.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _kernel_bench import Case, KernelBench, jobs_of  # sorts first, as it must: it chooses the interpreter
from elementwise_cases import logprobs_case, norm_case, randn, rope_case, sampling_case, silu_case

SOURCES = (
    "benchmarks/elementwise_cases.py", "src/infer_lab/kernels/rmsnorm.py", "src/infer_lab/kernels/silu_mul.py",
    "src/infer_lab/kernels/rope_kv_write.py", "src/infer_lab/kernels/logprobs.py", "src/infer_lab/kernels/sampling.py",
    "src/infer_lab/kernels/_sampling_kernels.py",
)  # fmt: skip
Build = Callable[[str], Callable[[], Any]]


def torch_norm(device: str, dtype: torch.dtype, rows: int, hidden: int) -> Callable[[], Any]:
    x, residual, weight = randn(device, dtype, rows, hidden), randn(device, dtype, rows, hidden), randn(device, dtype, hidden)

    def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stored = x + residual
        y = stored.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(x.dtype), stored

    fast: Any = run if device == "cpu" else torch.compile(run, dynamic=False)
    return lambda: fast(x, residual, weight)


def torch_silu(device: str, dtype: torch.dtype, rows: int, width: int) -> Callable[[], Any]:
    x = randn(device, dtype, rows, 2 * width)

    def run(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    fast: Any = run if device == "cpu" else torch.compile(run, dynamic=False)
    return lambda: fast(x)


def torch_sampling(device: str, rows: int, vocab: int, top_k: int, top_p: float) -> Callable[[], Any]:
    """What a plain implementation does: sort, cumulative sum, mask, scatter back, draw."""
    logits = randn(device, torch.float32, rows, vocab)

    def run() -> torch.Tensor:
        x, order = logits.sort(-1, descending=True)
        if top_k:
            x = x.masked_fill(torch.arange(vocab, device=x.device) >= top_k, float("-inf"))
        p = torch.softmax(x, -1)
        p = p.masked_fill(p.cumsum(-1) - p > top_p, 0.0)
        return order.gather(-1, torch.multinomial(p, 1))

    return run


def torch_logprobs(device: str, rows: int, vocab: int) -> Callable[[], Any]:
    logits, ids = randn(device, torch.float32, rows, vocab), torch.zeros(rows, 1, dtype=torch.int64, device=device)
    return lambda: torch.log_softmax(logits, -1).gather(-1, ids)


def cases(quick: bool, dtype: torch.dtype) -> list[tuple[Case, Build, dict[str, Build]]]:
    """Each with the builder of ours and of its peers, by device. Operations are counted as adds, multiplies and exponentials alike."""
    out: list[tuple[Case, Build, dict[str, Build]]] = []
    for rows, hidden in ((3, 64),) if quick else ((64, 4096), (2048, 4096), (16384, 4096)):
        case = Case(
            f"norm-{rows}x{hidden}", "residual + RMSNorm", f"{rows} × {hidden}", 4 * rows * hidden * 2, 5 * rows * hidden, 1, "limit-copy"
        )
        size = {"dtype": dtype, "rows": rows, "hidden": hidden}
        out.append((case, partial(norm_case, **size), {"inductor": partial(torch_norm, **size)}))
    for rows, width in ((3, 64),) if quick else ((64, 14336), (4096, 14336)):
        case = Case(f"silu-{rows}x{width}", "SiLU · mul", f"{rows} × {width}", 3 * rows * width * 2, 4 * rows * width)
        size = {"dtype": dtype, "rows": rows, "width": width}
        out.append((case, partial(silu_case, **size), {"inductor": partial(torch_silu, **size)}))
    heads, kv, d = (2, 1, 64) if quick else (32, 8, 128)
    for tokens in (4,) if quick else (64, 4096):
        numbers = tokens * (heads + 2 * kv) * d
        case = Case(
            f"rope-kv-{tokens}", "RoPE + KV write", f"{tokens} tokens, heads {heads}/{kv}, d{d}", 4 * numbers, 3 * numbers, 1, "limit-copy"
        )
        out.append((case, partial(rope_case, dtype=dtype, tokens=tokens, heads=heads, kv_heads=kv, d=d), {}))
    vocab = 300 if quick else 131072
    for rows, k, p in ((2, 0, 0.9),) if quick else ((64, 0, 0.9), (1, 0, 0.9), (64, 50, 1.0), (64, 50, 0.9)):
        cut = (f"-k{k}" if k else "") + (f"-p{round(p * 100)}" if p < 1 else "")
        words = f"B{rows} V{vocab}" + (f", top-k {k}" if k else "") + (f", top-p {p}" if p < 1 else "")
        size = {"rows": rows, "vocab": vocab, "top_k": k, "top_p": p}
        out.append((Case(f"sample-b{rows}{cut}", "sampling", words, 4 * rows * vocab, 3 * rows * vocab), partial(sampling_case, **size),
                    {"sort": partial(torch_sampling, **size)}))  # fmt: skip
    rows = 2 if quick else 64
    case = Case(f"logprobs-b{rows}", "log-softmax gather", f"B{rows} V{vocab}", 4 * rows * vocab, 3 * rows * vocab)
    out.append((case, partial(logprobs_case, rows=rows, vocab=vocab), {"torch": partial(torch_logprobs, rows=rows, vocab=vocab)}))
    return out


def main(argv: list[str] | None = None) -> int:
    operations = {case.operation for case, *_ in cases(True, torch.float16)}
    bench = KernelBench("elementwise", "Elementwise and sampling kernels beside their peers", __doc__, SOURCES, argv, operations)
    todo = [row for row in cases(bench.quick, bench.dtype) if bench.wants(row[0].operation)]
    bench.record.workload |= {"l2": "cold", "timing": "CUDA graph replays"}
    bench.compile(jobs_of(build for _, build, _ in todo))
    bench.measure_limits()
    for case, build, peers in todo:
        calls = {who: builder(bench.device) for who, builder in {"ours": build, **peers}.items()}
        for _ in range(1 if bench.quick else 3):  # in rounds, so that a machine that drifts does so for everybody
            for who, call in calls.items():
                bench.time(case, who, call)
        bench.keep(case)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
