"""When a sequence is over, by tokens alone. (Stop *strings* need text: the engine looks for them and calls `Scheduler.finish`.)"""

from __future__ import annotations

from infer_lab.core.request import Request


def finish_reason(request: Request) -> str | None:
    """Looked at after each new token. A stop token counts as output; "stop" wins over "length" when both hold. Before min_tokens only
    the length counts."""
    if request.token_ids[-1] in request.stop_token_ids and request.num_output_tokens >= request.min_tokens:
        return "stop"
    if len(request.token_ids) >= request.max_total_tokens:
        return "length"
    return None
