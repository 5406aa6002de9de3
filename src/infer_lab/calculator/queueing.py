"""Queues: Little's law, waiting in M/M/c and M/G/1, and the knee where latency leaves the ground.

Assumptions, said because each is wrong somewhere: arrivals are Poisson (independent of each other; real traffic is burstier and waits
longer); the queue is first come, first served and endless; `servers` are identical and serve one request each. An engine that batches is
no such server: its service time grows with the batch (that is what `capacity` models). What carries over is the shape: waiting goes
with 1 / (1 − utilization), so the last tenth of capacity costs more latency than all before it.
"""

from __future__ import annotations

import math

from infer_lab.calculator.arguments import Count, count, positive, share
from infer_lab.errors import OverloadError, UserError
from infer_lab.formulas import Worked, formula
from infer_lab.units import Quantity


@formula("{rate} · {time}")
def in_flight(rate: Count, time: Count) -> Worked:
    """Little's law: requests in a system are arrivals per second times the seconds that each stays. No assumption but steadiness."""
    arrivals, stay = positive(rate, "rate", "1/s", zero=True), positive(time, "time", "s", zero=True)
    return Worked(Quantity(arrivals.base * stay.base, "req"), {"rate": arrivals, "time": stay})


@formula("{rate} · {service} / {servers}")
def utilization(rate: Count, service: Count, servers: Count = 1) -> Worked:
    """Share of the time that a server is busy: work arriving per second over work that can be done per second. 1 and more: overload."""
    arrivals, each = positive(rate, "rate", "1/s", zero=True), positive(service, "service", "s")
    c = count(servers, "servers", 1)
    return Worked(Quantity(arrivals.base * each.base / c), {"rate": arrivals, "service": each, "servers": c})


@formula("{busy} · {service} · (1 + {cv}²) / (2 · (1 − {busy}))")
def mg1_wait(rate: Count, service: Count, cv: Count = 1) -> Worked:
    """Mean wait before service with one server (Pollaczek, Khinchine). cv: standard deviation of service times over their mean;
    0 for constant ones (M/D/1), 1 for exponential ones (M/M/1), above 1 for heavy tails such as mixed prompt lengths."""
    busy, each, spread = _busy(rate, service, 1), positive(service, "service", "s"), positive(cv, "cv", zero=True).base
    seconds = busy * each.base * (1 + spread**2) / (2 * (1 - busy))
    return Worked(Quantity(seconds, "s"), {"busy": busy, "service": each, "cv": spread})


@formula("Erlang C({servers}, {servers} · {busy})")
def mmc_wait_probability(rate: Count, service: Count, servers: Count = 1) -> Worked:
    """Chance that a request has to wait at all with `servers` servers (Erlang 1917); for one server it is the utilization."""
    c, busy = count(servers, "servers", 1), _busy(rate, service, servers)
    offered, blocked = c * busy, 1.0
    for k in range(1, c + 1):  # Erlang B by its recurrence, which neither overflows nor cancels
        blocked = offered * blocked / (k + offered * blocked)
    return Worked(Quantity(blocked / (1 - busy * (1 - blocked))), {"servers": c, "busy": busy})


@formula("{waits} · {service} / ({servers} · (1 − {busy}))")
def mmc_wait(rate: Count, service: Count, servers: Count = 1) -> Worked:
    """Mean wait before service with `servers` servers and exponential service times."""
    c, busy, each = count(servers, "servers", 1), _busy(rate, service, servers), positive(service, "service", "s")
    waits = mmc_wait_probability(rate, service, servers)
    return Worked(
        Quantity(waits.base * each.base / (c * (1 - busy)), "s"), {"waits": waits.base, "service": each, "servers": c, "busy": busy}
    )


@formula("ln({waits} / (1 − {q})) · {service} / ({servers} · (1 − {busy}))")
def mmc_wait_quantile(rate: Count, service: Count, servers: Count = 1, q: Count = 0.99) -> Worked:
    """The wait that a share `q` of requests does not exceed. Waits are exponential above the share that does not wait at all."""
    c, busy, each = count(servers, "servers", 1), _busy(rate, service, servers), positive(service, "service", "s")
    level, waits = share(q, "q", whole=False), mmc_wait_probability(rate, service, servers)
    inputs = {"waits": waits.base, "q": level, "service": each, "servers": c, "busy": busy}
    if waits.base <= 1 - level:
        return Worked(Quantity(0.0, "s"), inputs, "0, since {waits} ≤ 1 − {q}")
    return Worked(Quantity(math.log(waits.base / (1 - level)) * each.base / (c * (1 - busy)), "s"), inputs)


@formula("2 · ({slowdown} − 1) / (2 · ({slowdown} − 1) + 1 + {cv}²)")
def knee_utilization(slowdown: Count = 2, cv: Count = 1) -> Worked:
    """Utilization at which the mean time in an M/G/1 queue is `slowdown` times the service alone: wait as long as service, and it is 2."""
    times, spread = positive(slowdown, "slowdown").base, positive(cv, "cv", zero=True).base
    if times <= 1:
        raise UserError(f"a queue slows down by more than 1×, got {times:g}")
    value = 2 * (times - 1) / (2 * (times - 1) + 1 + spread**2)
    return Worked(Quantity(value), {"slowdown": times, "cv": spread})


def _busy(rate: Count, service: Count, servers: Count) -> float:
    busy = float(utilization(rate, service, servers))
    if busy >= 1:
        arrivals, each = positive(rate, "rate", "1/s", zero=True), positive(service, "service", "s")
        raise OverloadError(
            f"{arrivals.base:.4g} requests a second of {each.base:.4g} s each are {busy:.0%} of what {count(servers, 'servers')} server(s)"
            " can do: the queue grows without end. Add servers, shorten the service, or turn requests away"
        )
    return busy
