"""One step's decisions: who computes how many tokens, in which blocks, and who has to make room.

Why it cannot get stuck: the urgency of a request never changes; it preempts only less urgent ones; every running request is promised
one token a step; nobody is admitted in a step that preempted, and nobody in the queue overtakes its head; what cannot fit alone was
refused at the door. So the most urgent running request moves in every step and finishes, then the next.

Order within `plan_step`: running requests (and preemption) first, then the queue. So blocks that are swapped out, or freed, are taken
over only by what comes later in the order in which a worker carries out a plan (see plan.py).
"""

from __future__ import annotations

from infer_lab.core.kv_manager import KVCacheManager
from infer_lab.core.lifecycle import Lifecycle
from infer_lab.core.plan import PLACEHOLDER, AdmittedRequest, ScheduledRequest
from infer_lab.core.request import Request, RequestStatus
from infer_lab.core.step import Step


class Planner:
    """Fills a `Step`. Keeps nothing of its own: requests are in the lifecycle, blocks in the KV manager."""

    def __init__(self, life: Lifecycle, kv: KVCacheManager) -> None:
        self.config = life.config
        self.life = life
        self.kv = kv
        self._watermark_blocks = int(self.config.watermark * kv.pool.num_usable)
        self._most_per_request = self.config.long_prefill_token_threshold or self.config.max_num_batched_tokens

    def plan_step(self, step: Step) -> None:
        self._schedule_running(step)
        self._charge_tenants(step)
        if not step.preempted:
            self._schedule_waiting(step)

    # -- running requests ------------------------------------------------------------------------------------------------

    def _schedule_running(self, step: Step) -> None:
        running, block_size, is_async = self.life.running, self.kv.block_size, self.config.async_scheduling
        index = 0
        while index < len(running):
            request = running[index]
            index += 1
            missing = len(request.token_ids) - request.num_computed_tokens + len(request.draft_token_ids)
            if is_async and request.num_pending_samples:
                missing += self._num_placeholders(request)
            if missing <= 0:
                continue
            count = missing
            if missing > 1:
                promised = len(running) - index  # one token to each that follows
                count = min(missing, step.budget - promised, self._most_per_request)
            if request.num_computed_tokens + count > len(request.block_ids) * block_size:
                count = self._make_room(request, count, step)
                if not count:
                    return  # it was the least urgent itself, and gave way
            self._compute(request, count, missing, step)

    def _num_placeholders(self, request: Request) -> int:
        """Tokens that plans in flight will sample and that a step may compute already. None if they may be the last."""
        pending = request.num_pending_samples
        return pending if len(request.token_ids) + pending < request.max_total_tokens else -pending

    def _make_room(self, request: Request, count: int, step: Step) -> int:
        """As many of `count` tokens as there are blocks for; if not even one, preempt from the least urgent end. 0: it went itself."""
        while (room := self.kv.room(request)) < 1:
            victim = self.life.running[-1]
            assert victim is not request or len(self.life.running) > 1, f"{request} does not fit into an empty pool"
            self._preempt(victim, step)
            if victim is request:
                return 0
        return min(count, room)

    def _preempt(self, request: Request, step: Step) -> None:
        computed = request.num_computed_tokens
        if self.config.preemption == "swap" and self.kv.can_swap_out(request):
            event, status = "swapped_out", RequestStatus.SWAPPED
            step.swap_out += self.kv.swap_out(request)
            step.swapped_out.append(request)
        else:
            event, status = "preempted", RequestStatus.WAITING
            self.kv.release(request)
            request.num_computed_tokens = 0
        step.preempted.append(request)
        self.life.note(request, event, step.scheduled_at, computed, step.step_id)
        self.life.put_back(request, status)

    # -- waiting requests ------------------------------------------------------------------------------------------------

    def _schedule_waiting(self, step: Step) -> None:
        while step.budget > 0 and len(self.life.running) < self.config.max_num_seqs:
            request = self.life.waiting.peek()
            if request is None or request.num_pending_samples:  # preempted, and its last token is still on its way
                return
            if not self._try_admit(request, step):
                return  # nobody overtakes: the next in line must not starve
            self._charge_tenants(step)

    def _try_admit(self, request: Request, step: Step) -> bool:
        """Find what KV is there, see whether the rest fits, take it in."""
        hits, computed, source = self._find_kv(request, step)
        missing = request.num_tokens - computed
        count = min(missing, step.budget, self._most_per_request)
        if count < missing and not self._may_be_partial(step):
            return False
        if not self._fits(request, hits, computed + count, step):
            return False
        if request.status is RequestStatus.SWAPPED:
            event = "swapped_in"
            step.swap_in += self.kv.swap_in(request, hits)
        else:
            event = "resumed" if request.num_preemptions else "admitted"
            if source is None:
                self.kv.attach(request, hits)
            elif copy := self.kv.fork(source, request, computed):
                step.copies.append(copy)
            request.num_computed_tokens = computed
            step.cached_tokens += computed
            if event == "admitted":
                request.num_cached_tokens = computed
        self.life.start(request)
        self.life.note(request, event, step.scheduled_at, computed, step.step_id)
        step.admitted.append(
            AdmittedRequest(request.request_id, tuple(request.token_ids), request.num_prompt_tokens, request.params, request.stop_token_ids)
        )
        self._compute(request, count, missing, step, is_new=True)
        if step.promised_blocks is not None:
            step.promised_blocks += self._may_still_need(request)
        return True

    def _find_kv(self, request: Request, step: Step) -> tuple[list[int], int, Request | None]:
        """Blocks that can be shared, the tokens that need not be computed, and the sibling to fork, if that gives more than the cache."""
        block_size = self.kv.block_size
        hits = self.kv.match_prefix(request)
        if request.status is RequestStatus.SWAPPED:
            return hits[: request.num_computed_tokens // block_size], request.num_computed_tokens, None
        if request.group_id is not None and not request.skip_reading_prefix_cache:
            num_shared = request.num_prompt_tokens - 1
            source = self._fork_source(request, step)
            if source is not None and num_shared > len(hits) * block_size:
                return source.block_ids[: num_shared // block_size], num_shared, source
        return hits, len(hits) * block_size, None

    def _fork_source(self, request: Request, step: Step) -> Request | None:
        """A member of the request's group whose prompt KV was written by plans before this one (copies are made before tokens run)."""
        group = self.life.groups.get(request.group_id or "")
        if group is None:
            return None
        starts = {scheduled.request_id: scheduled.start for scheduled in step.scheduled}
        admitted = {admitted.request_id for admitted in step.admitted}
        for member in group.running():
            written = starts.get(member.request_id, member.num_computed_tokens)
            if member.request_id not in admitted and written >= request.num_prompt_tokens - 1:
                return member
        return None

    def _may_be_partial(self, step: Step) -> bool:
        most = self.config.max_num_partial_prefills
        return self.config.enable_chunked_prefill and (not most or step.num_partial < most)

    def _fits(self, request: Request, hits: list[int], num_tokens: int, step: Step) -> bool:
        """The admission gate: what must be free, once the hits are held. A request alone always enters, so that it cannot hang."""
        kv, gate = self.kv, self.config.admission
        free = kv.num_free_after(hits)
        if self.life.running:
            free -= self._watermark_blocks
            if gate == "prompt":
                num_tokens = request.num_tokens
            elif gate == "request":
                num_tokens = request.max_total_tokens - 1
                if step.promised_blocks is None:
                    step.promised_blocks = sum(map(self._may_still_need, self.life.running))
                free -= step.promised_blocks
        return kv.blocks_for(num_tokens) - len(hits) <= free

    def _may_still_need(self, request: Request) -> int:
        """Blocks beyond those that it has, should it generate all that it may. The last token's KV is never needed."""
        return self.kv.blocks_for(request.max_total_tokens - 1) - len(request.block_ids)

    # -- both ------------------------------------------------------------------------------------------------------------

    def _compute(self, request: Request, count: int, missing: int, step: Step, *, is_new: bool = False) -> None:
        """Put `count` of the request's `missing` tokens into the step, and move its number of computed tokens."""
        token_ids, drafts, tenant = request.token_ids, request.draft_token_ids, request.tenant
        start, num_blocks, num_drafts = request.num_computed_tokens, len(request.block_ids), 0
        end, known = start + count, len(token_ids)
        if end <= known:
            tokens = (token_ids[start],) if count == 1 else tuple(token_ids[start:end])
        elif drafts:
            num_drafts = end - known
            tokens = (*token_ids[start:], *drafts[:num_drafts])
        else:
            tokens = (*token_ids[start:], *(PLACEHOLDER,) * (end - max(start, known)))

        new_blocks = self.kv.extend(request, end) if end > num_blocks * self.kv.block_size else ()
        if is_new:
            num_blocks, new_blocks = 0, tuple(request.block_ids)
        samples = count + len(drafts) >= missing
        request.num_computed_tokens = end
        if samples:
            request.num_pending_samples += 1
            request.draft_token_ids = ()
        else:
            step.num_partial += 1
        step.budget -= count
        step.kv_tokens += end
        step.served[tenant] = step.served.get(tenant, 0) + count
        step.requests.append(request)
        step.scheduled.append(ScheduledRequest(request.request_id, start, tokens, samples, num_blocks, new_blocks, num_drafts))
        step.draft_tokens += num_drafts
        if samples and count - num_drafts == 1 and start >= request.num_prompt_tokens:
            step.decode_tokens += 1
        else:
            step.prefill_tokens += count - num_drafts

    def _charge_tenants(self, step: Step) -> None:
        for tenant, count in step.served.items():
            self.life.waiting.charge(tenant, count)
        step.served.clear()
