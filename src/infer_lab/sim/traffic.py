"""Who asks when, and how much: arrival processes and length distributions.

Why generators from a seeded `random.Random`: the same seed gives the same traffic, so two policies meet the same hour of requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from infer_lab.errors import UserError


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise UserError(message)


class Lengths(NamedTuple):
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of the traffic. The first `prefix_tokens` of its prompt are those of every request with the same `prefix`.

    n: how many answers to the one prompt; each is a request of its own to the scheduler. own: arrivals with the same `own` have the same
    rest of the prompt too; None for one that nobody else has."""

    time: float
    prompt_tokens: int
    output_tokens: int
    prefix: int = 0
    prefix_tokens: int = 0
    tenant: str = ""
    priority: int = 0
    n: int = 1
    own: int | None = None

    def __post_init__(self) -> None:
        _require(self.n >= 1, f"an arrival asks for at least one answer, got n = {self.n}")
        _require(self.prompt_tokens >= 1, f"an arrival needs a prompt of at least one token, got {self.prompt_tokens}")
        _require(self.output_tokens >= 1, f"an arrival asks for at least one output token, got {self.output_tokens}")
        _require(
            self.prefix >= 0 and 0 <= self.prefix_tokens <= self.prompt_tokens,
            f"prefix {self.prefix} of {self.prefix_tokens} tokens cannot begin a prompt of {self.prompt_tokens}",
        )


LengthDistribution = Callable[[random.Random], Lengths]


# -- lengths -----------------------------------------------------------------------------------------------------------------


def fixed(prompt: int, output: int) -> LengthDistribution:
    return lambda r: Lengths(prompt, output)


def uniform(prompt: tuple[int, int], output: tuple[int, int]) -> LengthDistribution:
    """Both ends included."""
    _require(prompt[0] <= prompt[1] and output[0] <= output[1], f"uniform lengths go from low to high, got {prompt} and {output}")
    return lambda r: Lengths(r.randint(*prompt), r.randint(*output))


def lognormal(prompt_median: float, output_median: float, sigma: float = 0.8, longest: int = 8192) -> LengthDistribution:
    """Medians in tokens; sigma is that of the logarithm. Chat traffic looks like this: many short ones, a long tail."""
    _require(prompt_median > 0 and output_median > 0, f"medians must be positive, got {prompt_median} and {output_median}")

    def draw(median: float, r: random.Random) -> int:
        return max(1, min(longest, round(median * r.lognormvariate(0.0, sigma))))

    return lambda r: Lengths(draw(prompt_median, r), draw(output_median, r))


def empirical(pairs: Sequence[tuple[int, int]]) -> LengthDistribution:
    """Drawn from measured (prompt, output) pairs."""
    pairs = list(pairs)
    _require(bool(pairs), "empirical lengths need at least one (prompt, output) pair")
    return lambda r: Lengths(*r.choice(pairs))


# -- arrivals ----------------------------------------------------------------------------------------------------------------


def poisson(rate: float, lengths: LengthDistribution, seed: int = 0) -> Iterator[Arrival]:
    """Independent arrivals, `rate` a second on average, without end."""
    _require(rate > 0, f"rate must be positive, got {rate}")
    r, now = random.Random(seed), 0.0
    while True:
        now += r.expovariate(rate)
        yield Arrival(now, *lengths(r))


def bursts(
    rate: float, burst_rate: float, lengths: LengthDistribution, *, quiet_s: float, burst_s: float, seed: int = 0
) -> Iterator[Arrival]:
    """Poisson at `rate`, switching to `burst_rate` for a while and back; both spells last exponentially long, on average as given."""
    _require(
        min(rate, burst_rate, quiet_s, burst_s) > 0,
        f"rates and spells must be positive, got {rate}, {burst_rate} a second and {quiet_s}, {burst_s} s",
    )
    r, now, in_burst = random.Random(seed), 0.0, False
    until = r.expovariate(1 / quiet_s)
    while True:
        step = r.expovariate(burst_rate if in_burst else rate)
        if now + step > until:  # memoryless: start again from the switch
            now, in_burst = until, not in_burst
            until = now + r.expovariate(1 / (burst_s if in_burst else quiet_s))
            continue
        now += step
        yield Arrival(now, *lengths(r))


def trace(rows: Iterable[tuple[float, int, int]]) -> Iterator[Arrival]:
    """Recorded traffic: (seconds, prompt tokens, output tokens), in order of time."""
    return (Arrival(time, prompt, output) for time, prompt, output in rows)


# -- shaping -----------------------------------------------------------------------------------------------------------------


def first(arrivals: Iterable[Arrival], count: int) -> list[Arrival]:
    return list(islice(arrivals, count))


def until(arrivals: Iterable[Arrival], seconds: float) -> list[Arrival]:
    kept = []
    for arrival in arrivals:
        if arrival.time > seconds:
            break
        kept.append(arrival)
    return kept


def with_shared_prefixes(arrivals: Iterable[Arrival], num_prefixes: int, prefix_tokens: int, seed: int = 0) -> Iterator[Arrival]:
    """Put one of `num_prefixes` common beginnings (system prompts) before each prompt."""
    _require(num_prefixes >= 1 and prefix_tokens >= 0, f"got {num_prefixes} prefixes of {prefix_tokens} tokens; at least one is needed")
    r = random.Random(seed)
    for arrival in arrivals:
        yield replace(
            arrival, prefix=r.randrange(num_prefixes), prefix_tokens=prefix_tokens, prompt_tokens=arrival.prompt_tokens + prefix_tokens
        )


def with_tenants(arrivals: Iterable[Arrival], shares: dict[str, float], seed: int = 0) -> Iterator[Arrival]:
    """Give each arrival a tenant, drawn by share."""
    _require(bool(shares) and min(shares.values()) >= 0 and sum(shares.values()) > 0, f"shares must add up to something, got {shares}")
    r, names, weights = random.Random(seed), list(shares), list(shares.values())
    for arrival in arrivals:
        yield replace(arrival, tenant=r.choices(names, weights)[0])
