"""Where every request is: the one place in which a status changes.

Why: a request is in one of a few places (queue, host memory, batch, gone), and each place has its own book-keeping: queue entries,
counts for the limits, blocks, rows of the worker, groups. If moving is written once, abort at any moment is no special case.

    NEW     → HELD      add; all of a group but its leader stay there for a while
    HELD    → WAITING   the leader has computed the prompt, or this one leads
    WAITING → RUNNING   admitted
    RUNNING → WAITING   preempted, KV thrown away
    RUNNING → SWAPPED   preempted, KV moved to the host (it waits in the same queue)
    SWAPPED → RUNNING   admitted, KV moved back
    any     → FINISHED  stop, length, abort, finish, a failed step
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.group import Group
from infer_lab.core.kv_manager import KVCacheManager
from infer_lab.core.limits import check_queue, check_request
from infer_lab.core.policy import WaitingQueue, urgency
from infer_lab.core.record import TimelineEvent
from infer_lab.core.request import Request, RequestStatus, RequestUpdate
from infer_lab.errors import DuplicateRequestError, InvalidRequestError

_QUEUED = (RequestStatus.WAITING, RequestStatus.SWAPPED)


def by_urgency(request: Request) -> tuple[float, int]:
    return request.urgency


class Lifecycle:
    """requests: those alive. running: most urgent first. released: worker rows to be closed by the next plan."""

    def __init__(self, config: SchedulerConfig, kv: KVCacheManager, clock: Callable[[], float]) -> None:
        self.config = config
        self.kv = kv
        self.clock = clock
        self.requests: dict[str, Request] = {}
        self.waiting = WaitingQueue(config.tenant_weights)
        self.running: list[Request] = []
        self.groups: dict[str, Group] = {}
        self.num_held = 0
        self.released: list[str] = []
        self._next_arrival = 0
        self._waiting_of: Counter[str] = Counter()  # held and queued requests by tenant; only tenants that have some

    @property
    def num_waiting(self) -> int:
        return len(self.waiting) + self.num_held

    def add(self, requests: list[Request], group_id: str | None) -> None:
        """Take in a request, or a group whole; or raise and change nothing."""
        names = [request.request_id for request in requests]
        for name in names if group_id is None else [group_id, *names]:
            if name in self.requests or name in self.groups or names.count(name) > 1:
                raise DuplicateRequestError(f"request {name!r} is alive already; wait until it has finished or take another id")
        for request in requests:
            if request.status is not RequestStatus.NEW:
                raise InvalidRequestError(f"request {request.request_id!r} was given to a scheduler before; make a new Request")
            check_request(request, self.config)
        check_queue(requests, self.num_waiting, self.waiting.num_tokens, self._waiting_of, self.config)
        now = self.clock()
        for request in requests:
            request.arrival = self._next_arrival
            self._next_arrival += 1
            request.urgency = urgency(self.config.policy, request.priority, request.arrival, now, self.config.priority_aging_s)
            request.group_id = group_id
            request.status = RequestStatus.HELD
            self.requests[request.request_id] = request
            self._waiting_of[request.tenant] += 1
            self.waiting.enter(request.tenant)
            self.note(request, "arrived", now, request.num_tokens)
        self.num_held += len(requests)
        if group_id is not None:
            self.groups[group_id] = Group(group_id, requests)
        self._enqueue(requests[0])

    def _enqueue(self, request: Request) -> None:
        self.num_held -= 1
        request.status = RequestStatus.WAITING
        self.waiting.push(request)

    def start(self, request: Request) -> None:
        """The head of the queue joins the batch. It has its blocks."""
        popped = self.waiting.pop()
        assert popped is request
        request.status = RequestStatus.RUNNING
        request.has_row = True
        self._no_longer_waits(request)
        insort(self.running, request, key=by_urgency)

    def put_back(self, request: Request, status: RequestStatus) -> None:
        """The least urgent of the batch goes back to the queue. Its blocks are dealt with."""
        popped = self.running.pop()
        assert popped is request and status in _QUEUED
        request.status = status
        request.draft_token_ids = ()
        request.num_preemptions += 1
        self._waiting_of[request.tenant] += 1
        self._close_row(request)
        self.waiting.push(request)

    def release_siblings(self, request: Request) -> None:
        """The leader of a group has computed the prompt: the others may come and fork it."""
        group = self.groups.get(request.group_id or "")
        if group and group.held and request is group.leader and request.num_computed_tokens >= request.num_prompt_tokens:
            for sibling in group.release_held():
                self._enqueue(sibling)

    def finish(self, request: Request, reason: str, now: float) -> RequestUpdate:
        """Take a request out of wherever it is. Its blocks are free at once, since plans run in the order they are issued."""
        status, request.status = request.status, RequestStatus.FINISHED
        request.finish_reason = reason
        request.draft_token_ids = ()
        if status is RequestStatus.RUNNING:
            del self.running[bisect_left(self.running, request.urgency, key=by_urgency)]
        else:
            self._no_longer_waits(request)
            if status is RequestStatus.HELD:
                self.num_held -= 1
            else:
                self.waiting.remove(request)
        self.kv.release(request)
        self._close_row(request)
        self.waiting.leave(request.tenant)
        del self.requests[request.request_id]
        self.note(request, "finished", now, request.num_tokens)
        if group := self.groups.get(request.group_id or ""):
            if heir := group.remove(request):
                self._enqueue(heir)
            if not group.members:
                del self.groups[group.group_id]
        return RequestUpdate(request.request_id, (), reason)

    def note(self, request: Request, name: str, now: float, tokens: int, step_id: int = -1) -> None:
        request.timeline.events.append(TimelineEvent(now, name, step_id, tokens))

    def _no_longer_waits(self, request: Request) -> None:
        self._waiting_of[request.tenant] -= 1
        if not self._waiting_of[request.tenant]:
            del self._waiting_of[request.tenant]

    def _close_row(self, request: Request) -> None:
        if request.has_row:
            self.released.append(request.request_id)
            request.has_row = False

    def check_invariants(self) -> None:
        self.waiting.check_invariants()
        self.kv.check_invariants(self.requests.values())
        assert self.running == sorted(self.running, key=by_urgency) and len(self.running) <= self.config.max_num_seqs
        queued = {request.request_id for request in self.waiting}
        batch = {request.request_id for request in self.running}
        held = {request.request_id for group in self.groups.values() for request in group.held}
        assert len(queued) + len(batch) + len(held) == len(self.requests), "a request is nowhere or in two places"
        assert self.num_held == len(held)
        for name, request in self.requests.items():
            assert name == request.request_id
            assert (request.status is RequestStatus.RUNNING) == (name in batch) == request.has_row, f"{request}"
            assert (request.status in _QUEUED) == (name in queued), f"{request}"
            assert (request.status is RequestStatus.HELD) == (name in held), f"{request}"
            assert (request.status is RequestStatus.SWAPPED) == bool(request.host_block_ids), f"{request}"
            if request.status in (RequestStatus.WAITING, RequestStatus.HELD):
                assert not request.block_ids and not request.num_computed_tokens, f"{request} waits and holds blocks"
            assert request.num_tokens <= request.max_total_tokens and request.num_pending_samples >= 0, f"{request}"
        for group in self.groups.values():
            assert group.members and all(self.requests[name] is member for name, member in group.members.items())
            assert not group.held or group.leader.request_id in group.members, "siblings are held and nobody leads"
        assert Counter(request.tenant for request in self.requests.values()) == self.waiting.alive
        waits = Counter(r.tenant for r in self.requests.values() if r.status is not RequestStatus.RUNNING)
        assert waits == self._waiting_of and 0 not in self._waiting_of.values()
