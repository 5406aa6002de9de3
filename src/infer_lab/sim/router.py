"""Which instance gets a request. A router sees the instances' queues, as a gateway would, and nothing of the future."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infer_lab.sim.instance import Instance
from infer_lab.sim.traffic import Arrival

Router = Callable[[Arrival, Sequence[Instance]], Instance]


def round_robin() -> Router:
    turn = -1

    def route(arrival: Arrival, instances: Sequence[Instance]) -> Instance:
        nonlocal turn
        turn = (turn + 1) % len(instances)
        return instances[turn]

    return route


def least_outstanding() -> Router:
    """The instance with the fewest tokens still to compute and to generate."""
    return lambda arrival, instances: min(instances, key=lambda instance: instance.outstanding_tokens)


def prefix_affinity(imbalance_tokens: int = 8192) -> Router:
    """Requests with one prefix go to one instance, whose cache has it, unless that is this much more loaded than the least loaded one."""

    def route(arrival: Arrival, instances: Sequence[Instance]) -> Instance:
        home = instances[arrival.prefix % len(instances)]
        least = min(instances, key=lambda instance: instance.outstanding_tokens)
        if not arrival.prefix_tokens or home.outstanding_tokens > least.outstanding_tokens + imbalance_tokens:
            return least
        return home

    return route
