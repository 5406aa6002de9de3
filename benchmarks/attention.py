"""Flash prefill and paged decode beside what a user would pick instead, in one run on one machine.

python benchmarks/attention.py                      # on the GPU
python benchmarks/attention.py --record             # and write measurements/<device>/attention.json
python benchmarks/attention.py --device cpu --quick # tiny sizes in the CPU interpreter, to see that it runs

Peers: SDPA (cuDNN, FlashAttention-2), FlexAttention, and FlashAttention-3 where `fa3_fwd_interface` is installed; all of them read a
dense cache. The last line of output is one JSON document.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _kernel_bench import Case, KernelBench, jobs_of  # sorts first, as it must: it chooses the interpreter
from attention_cases import Decode, Prefill, dense_prefill, paged_decode_case, paged_prefill

from infer_lab.kernels import _common

SOURCES = (
    "benchmarks/attention_cases.py", "src/infer_lab/kernels/flash_prefill.py", "src/infer_lab/kernels/hopper_prefill.py",
    "src/infer_lab/kernels/_hopper_prefill_kernel.py", "src/infer_lab/kernels/paged_decode.py",
    "src/infer_lab/kernels/_paged_decode_kernel.py",
)  # fmt: skip
PREFILLS = (Prefill(2, 4096, 32, 8, 128), Prefill(1, 8192, 32, 8, 128), Prefill(1, 16384, 32, 8, 128), Prefill(1, 8192, 32, 8, 64))
DECODES = (Decode(64, 4096, 32, 8, 128), Decode(16, 4096, 32, 8, 128), Decode(1, 32768, 32, 8, 128), Decode(1, 4096, 32, 8, 128))
QUICK_PREFILLS = (Prefill(1, 64, 2, 1, 64, torch.float16),)
QUICK_DECODES = (Decode(2, 48, 2, 1, 64, torch.float16),)
PAGES = (16, 64)
NARROW = (("fp8", _common.FP8), ("int8", torch.int8))


def sdpa(backend: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], torch.Tensor]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def run() -> torch.Tensor:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    return run


def flex(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2], device=q.device)
    compiled: Any = torch.compile(flex_attention)
    return lambda: compiled(q, k, v, block_mask=mask, enable_gqa=True)


def flash3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], torch.Tensor] | None:
    try:
        from fa3_fwd_interface import flash_attn_func  # type: ignore[import-not-found]
    except ImportError:
        return None

    def run() -> torch.Tensor:
        out = flash_attn_func(q, k, v, causal=causal)
        return out[0] if isinstance(out, tuple) else out

    return run


def prefill_peers(shape: Prefill, device: str) -> dict[str, Callable[[], object] | None]:
    q = torch.randn(shape.batch, shape.seq, shape.heads, shape.head_dim, dtype=shape.dtype, device=device)
    k, v = (torch.randn(shape.batch, shape.seq, shape.kv_heads, shape.head_dim, dtype=shape.dtype, device=device) for _ in range(2))
    qt, kt, vt = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    if device == "cpu":
        return {"sdpa": sdpa("MATH", qt, kt, vt, True)}
    return {
        "fa3": flash3(q, k, v, True), "cudnn": sdpa("CUDNN_ATTENTION", qt, kt, vt, True),
        "fa2": sdpa("FLASH_ATTENTION", qt, kt, vt, True), "flex": flex(qt, kt, vt),
    }  # fmt: skip


def decode_peers(shape: Decode, device: str) -> dict[str, Callable[[], object] | None]:
    q = torch.randn(shape.batch, shape.heads, 1, shape.head_dim, dtype=shape.dtype, device=device)
    k, v = (torch.randn(shape.batch, shape.kv_heads, shape.seq, shape.head_dim, dtype=shape.dtype, device=device) for _ in range(2))
    if device == "cpu":
        return {"sdpa": sdpa("MATH", q, k, v, False)}
    rows = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    return {
        "fa3": flash3(*rows, False), "cudnn": sdpa("CUDNN_ATTENTION", q, k, v, False), "fa2": sdpa("FLASH_ATTENTION", q, k, v, False),
    }  # fmt: skip


def run_peers(bench: KernelBench, case: Case, peers: dict[str, Callable[[], object] | None]) -> None:
    for who, fn in peers.items():
        if fn is not None:
            bench.time(case, who, fn)


def prefill(bench: KernelBench, shape: Prefill) -> None:
    words = f"B{shape.batch} S{shape.seq} d{shape.head_dim}, heads {shape.heads}/{shape.kv_heads}"
    dense = Case(shape.name, "prefill", words, shape.nbytes, shape.flops)
    bench.time(dense, "ours", dense_prefill(shape, bench.device))
    run_peers(bench, dense, prefill_peers(shape, bench.device))
    bench.keep(dense)
    for page in PAGES:
        paged = Case(f"{shape.name}-page{page}", "paged prefill", f"{words}, page {page}", shape.nbytes, shape.flops, work=shape.name)
        bench.time(paged, "ours", paged_prefill(shape, bench.device, page))
        paged.times["ours-dense"] = dense.times["ours"]
        bench.keep(paged)


def decode(bench: KernelBench, shape: Decode) -> None:
    words = f"B{shape.batch} S{shape.seq} d{shape.head_dim}, heads {shape.heads}/{shape.kv_heads}"
    wide = Case(shape.name, "paged decode", f"{words}, page 16", shape.kv_bytes(shape.dtype.itemsize), shape.flops)
    bench.time(wide, "ours", paged_decode_case(shape, bench.device, 16))
    run_peers(bench, wide, decode_peers(shape, bench.device))
    bench.keep(wide)
    page64 = Case(f"{shape.name}-page64", "paged decode", f"{words}, page 64", wide.nbytes, wide.flops)
    bench.time(page64, "ours", paged_decode_case(shape, bench.device, 64))
    bench.keep(page64)
    for label, kind in NARROW:
        narrow = Case(f"{shape.name}-{label}", f"paged decode, {label.upper()} KV", f"{words}, page 16", shape.kv_bytes(1), shape.flops)
        bench.time(narrow, "ours", paged_decode_case(shape, bench.device, 16, kind))
        narrow.times["ours-16-bit"] = wide.times["ours"]
        bench.keep(narrow)


def builders(prefills: tuple[Prefill, ...], decodes: tuple[Decode, ...]) -> list[Callable[[str], Callable[[], Any]]]:
    target = _common.target_of(torch.device("cuda"))
    found: list[Callable[[str], Callable[[], Any]]] = []
    for p in prefills:
        found += [partial(dense_prefill, p), *(partial(paged_prefill, p, page=page) for page in PAGES)]
    for d in decodes:
        pairs = [(page, None) for page in PAGES] + [(16, kind) for _, kind in NARROW]
        found += [partial(paged_decode_case, d, page=page, cache_dtype=kind, target=target) for page, kind in pairs]
    return found


def main(argv: list[str] | None = None) -> int:
    bench = KernelBench("attention", "Attention kernels beside their peers", __doc__, SOURCES, argv, ("prefill", "decode"))
    prefills, decodes = (QUICK_PREFILLS, QUICK_DECODES) if bench.quick else (PREFILLS, DECODES)
    bench.record.workload |= {"pages": "shuffled", "l2": "cold", "timing": "CUDA graph replays"}
    if bench.on_gpu:
        bench.compile(jobs_of(builders(prefills, decodes)))
    bench.measure_limits()
    for shape in prefills if bench.wants("prefill") else ():
        prefill(bench, shape)
    for shape in decodes if bench.wants("decode") else ():
        decode(bench, shape)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
