"""What is refused at the door, by name and with the figures.

Why at once: a request that can never be served must not wait in the queue, where it would block or kill its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.request import Request
from infer_lab.errors import PromptTooLongError, QueueFullError, RequestTooLargeError


def check_request(request: Request, config: SchedulerConfig) -> None:
    """Lower `max_total_tokens` to the model's context, and refuse what can never fit."""
    prompt = request.num_prompt_tokens
    if prompt >= config.max_model_len:
        raise PromptTooLongError(
            f"request {request.request_id!r}: the prompt has {prompt} tokens, but prompt and at least one output token must fit into"
            f" max_model_len = {config.max_model_len}; shorten the prompt to {config.max_model_len - 1} tokens or fewer"
        )
    request.max_total_tokens = min(prompt + request.max_tokens, config.max_model_len)
    need = -(-(request.max_total_tokens - 1) // config.block_size)  # the last token's KV is never needed
    usable = config.num_blocks - 1
    if need > usable:
        raise RequestTooLargeError(
            f"request {request.request_id!r}: {prompt} prompt tokens and up to {request.max_total_tokens - prompt} output tokens need"
            f" {need} KV blocks of {config.block_size} tokens, but the whole pool has {usable} ({usable * config.block_size} tokens);"
            " lower max_tokens, shorten the prompt or give the cache more memory"
        )


def check_queue(
    requests: Sequence[Request], num_waiting: int, waiting_tokens: int, waiting_of: Mapping[str, int], config: SchedulerConfig
) -> None:
    """Refuse what the queue does not take now. `requests` (one, or a group) enter whole or not at all."""
    tenant = requests[0].tenant
    new, tokens = len(requests), sum(request.num_tokens for request in requests)
    for limit, name, there, more, unit in (
        (config.max_waiting_requests, "max_waiting_requests", num_waiting, new, "requests"),
        (config.max_waiting_tokens, "max_waiting_tokens", waiting_tokens, tokens, "tokens"),
        (config.max_waiting_per_tenant, "max_waiting_per_tenant", waiting_of.get(tenant, 0), new, f"requests of tenant {tenant!r}"),
    ):
        if limit and more > limit:
            raise RequestTooLargeError(f"{more} {unit} at once can never enter a queue with {name} = {limit}")
        if limit and there + more > limit:
            raise QueueFullError(f"{there} {unit} wait, and {more} more would pass {name} = {limit}; try again later")
