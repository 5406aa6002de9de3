"""Makes reference/smollm2_greedy.json: transformers' greedy tokens and top-two margins for every reference prompt. Some minutes on a CPU.

python tests/models/make_reference.py
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent
REFERENCE = HERE / "reference" / "smollm2_greedy.json"
NUM_TOKENS = 64


def main() -> None:
    sys.path.insert(0, str(HERE))
    from oracle import greedy, smollm2_oracle
    from prompts import REFERENCE_PROMPTS

    from infer_lab.models.checkpoint import open_checkpoint
    from infer_lab.models.smollm2_file import SHA256, smollm2_file

    path = smollm2_file()
    tokenizer = open_checkpoint(str(path)).tokenizer
    assert tokenizer is not None
    model = smollm2_oracle(path)
    rows = []
    for prompt in REFERENCE_PROMPTS:
        ids = tokenizer.encode_chat([{"role": "user", "content": prompt.text}]) if prompt.chat else tokenizer.encode(prompt.text)
        tokens, margins = greedy(model, ids, NUM_TOKENS)
        rows.append({"name": prompt.name, "prompt": ids, "tokens": tokens, "margins": [float(f"{m:.4g}") for m in margins]})
        print(f"{prompt.name}: {len(ids)} prompt tokens, smallest margin {min(margins):.2g}", file=sys.stderr, flush=True)
    made_with = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
        "model_sha256": SHA256,
    }
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    REFERENCE.write_text(f'{{"made_with": {json.dumps(made_with)},\n"dtype": "float32",\n"prompts": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(rows)} prompts → {REFERENCE.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
