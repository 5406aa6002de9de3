"""Who is next: the order of requests, and the queue that keeps it.

Why a fixed number for each request: if urgency changed with time, a queue would have to be sorted again in every step. With
linear aging it need not be. A request's claim at time t is `priority - (t - arrival) / aging`; between two waiting requests the
difference does not depend on t, so `priority + arrival / aging` gives the same order for ever. Any request is overtaken only by
later ones that arrive within (difference of priority) × aging seconds: nobody starves.

Between tenants the queue is weighted-fair: the one that has been served least (computed tokens / weight) goes first. Virtual time is the
service that a tenant of weight 1 would have had if all alive had been served evenly; a tenant that is new, or comes back from idling,
starts there: without credit, and, since virtual time moves with every token served, without overtaking for ever those who wait.
(Weighted fair queueing; for language models: Virtual Token Counter, Sheng et al. 2024.)
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping

from infer_lab.core.request import Request, RequestStatus

_MAX_IDLE_TENANTS = 1024


def urgency(policy: str, priority: int, arrival: int, arrival_time: float, aging_s: float) -> tuple[float, int]:
    """Smaller goes first; unique through the running number of arrival."""
    return (priority + arrival_time / aging_s if policy == "priority" else 0.0, arrival)


class WaitingQueue:
    """Requests by tenant and urgency. push, pop and remove are O(log n); a removed request leaves an entry that is skipped.

    alive: living requests by tenant, those outside the queue too."""

    def __init__(self, tenant_weights: Mapping[str, float] | None = None) -> None:
        self._weights = dict(tenant_weights or {})
        self._queues: dict[str, list[tuple[tuple[float, int], Request]]] = {}  # only tenants with entries
        # service of a tenant, and a running number of when it began to wait, for those who are level; both only grow
        self._tags: dict[str, tuple[float, int]] = {}
        self._tenants: list[tuple[tuple[float, int], str]] = []  # heap of (tag when pushed, tenant), one entry a queue
        self._next_number = 0
        self.alive: Counter[str] = Counter()
        self._alive_weight = 0.0
        self._sizes: Counter[str] = Counter()  # requests in the queue by tenant
        self._virtual_time = 0.0
        self._size = 0  # requests in the queue
        self._num_entries = 0  # the same and those that left from the middle
        self.num_tokens = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Request]:
        return (request for queue in self._queues.values() for _, request in queue if _is_queued(request))

    def enter(self, tenant: str) -> None:
        """One more request of the tenant is alive."""
        if not self.alive[tenant]:
            self._alive_weight += self._weights.get(tenant, 1.0)
        self.alive[tenant] += 1

    def leave(self, tenant: str) -> None:
        """One request less of the tenant is alive."""
        self.alive[tenant] -= 1
        if not self.alive[tenant]:
            del self.alive[tenant]
            self._alive_weight = self._alive_weight - self._weights.get(tenant, 1.0) if self.alive else 0.0

    def charge(self, tenant: str, num_tokens: int) -> None:
        """A tenant that is alive was served."""
        service, number = self._tags.get(tenant, (self._virtual_time, -1))
        self._tags[tenant] = (service + num_tokens / self._weights.get(tenant, 1.0), number)
        self._virtual_time += num_tokens / self._alive_weight

    def push(self, request: Request) -> None:
        queue = self._queues.get(request.tenant)
        if not self._sizes[request.tenant]:
            service, _ = self._tags.get(request.tenant, (0.0, -1))
            self._tags[request.tenant] = (max(service, self._virtual_time), self._next_number)
            self._next_number += 1
        if queue is None:
            queue = self._queues[request.tenant] = []
            heapq.heappush(self._tenants, (self._tags[request.tenant], request.tenant))
        heapq.heappush(queue, (request.urgency, request))
        self._sizes[request.tenant] += 1
        self._size += 1
        self._num_entries += 1
        self.num_tokens += request.num_tokens

    def peek(self) -> Request | None:
        """The request that is next. Tags only grow, so an entry that is out of date goes back into the heap where it belongs."""
        while self._tenants:
            pushed, tenant = self._tenants[0]
            queue = self._queues[tenant]
            while queue and not _is_queued(queue[0][1]):
                heapq.heappop(queue)
                self._num_entries -= 1
            if not queue:
                heapq.heappop(self._tenants)
                del self._queues[tenant]
                self._forget_idle_tenants()
            elif self._tags[tenant] > pushed:
                heapq.heapreplace(self._tenants, (self._tags[tenant], tenant))
            else:
                return queue[0][1]
        return None

    def pop(self) -> Request:
        """Take the request that `peek` showed. Its status is the caller's to change."""
        request = self.peek()
        assert request is not None
        heapq.heappop(self._queues[request.tenant])
        self._num_entries -= 1
        self._left(request)
        return request

    def remove(self, request: Request) -> None:
        """A request leaves from the middle; it is finished already. Its entry is skipped when it comes up, or swept out with others."""
        self._left(request)
        if self._num_entries > 2 * self._size + 64:
            for queue in self._queues.values():
                queue[:] = [entry for entry in queue if _is_queued(entry[1])]
                heapq.heapify(queue)
            self._num_entries = self._size

    def grew(self, num_tokens: int) -> None:
        """A request in the queue got tokens: the output of a plan that was issued before it was preempted."""
        self.num_tokens += num_tokens

    def _left(self, request: Request) -> None:
        self._size -= 1
        self.num_tokens -= request.num_tokens
        self._sizes[request.tenant] -= 1
        if not self._sizes[request.tenant]:
            del self._sizes[request.tenant]

    def _forget_idle_tenants(self) -> None:
        """Keep the map bounded: a tenant without debt needs no entry, and only so many idle debts are remembered."""
        if len(self._tags) <= len(self._queues) + _MAX_IDLE_TENANTS:
            return
        idle = sorted((tag, tenant) for tenant, tag in self._tags.items() if tenant not in self._queues)
        for (service, _), tenant in idle:
            if service <= self._virtual_time or len(self._tags) > len(self._queues) + _MAX_IDLE_TENANTS // 2:
                del self._tags[tenant]

    def check_invariants(self) -> None:
        queued = list(self)
        assert self._num_entries == sum(map(len, self._queues.values()))
        assert len(queued) == self._size and len(set(map(id, queued))) == self._size
        assert Counter(request.tenant for request in queued) == self._sizes and 0 not in self._sizes.values()
        assert sum(request.num_tokens for request in queued) == self.num_tokens
        assert sorted(tenant for _, tenant in self._tenants) == sorted(self._queues)
        assert all(self._tags[tenant] >= pushed for pushed, tenant in self._tenants)


def _is_queued(request: Request) -> bool:
    return request.status is RequestStatus.WAITING or request.status is RequestStatus.SWAPPED
