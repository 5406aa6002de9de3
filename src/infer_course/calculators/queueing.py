"""Queueing and the knee: waiting against utilization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_course.calculators.fields import Field
from infer_course.calculators.sheet import Sheet, curve, show
from infer_course.plot import Line, Plot
from infer_lab import calculator as c
from infer_lab.errors import OverloadError

ONE, SEVERAL = "mg1", "mmc"
FIELDS = (
    Field("queue", "Queue", SEVERAL, "choice", options=((SEVERAL, "M/M/c: c servers, one line"), (ONE, "M/G/1: one server, any spread"))),
    Field("rate", "Arrivals", "6", "amount", "1/s", low=0, high=1e6, hint="requests a second, Poisson"),
    Field("service", "Service time", "1", "amount", "s", low=1e-6, high=1e6, hint="mean, without waiting; 400 ms works too"),
    Field("servers", "Servers", "8", low=1, high=2000, hint="replicas, or slots of one", when=("queue", (SEVERAL,))),
    Field(
        "cv",
        "Spread",
        "1",
        "number",
        low=0,
        high=100,
        hint="standard deviation over mean: 0 constant, 1 exponential",
        when=("queue", (ONE,)),
    ),
    Field("q", "Tail", "0.99", "share", low=0.5, high=0.99999, hint="0.99 is the 99th percentile", when=("queue", (SEVERAL,))),
    Field("slowdown", "Knee at", "2", "number", low=1.01, high=1000, hint="times the service time alone", more=True),
)


def fill(sheet: Sheet, values: Mapping[str, Any]) -> None:
    several = values["queue"] == SEVERAL
    rate, service, servers = values["rate"], values["service"], values["servers"] if several else 1
    busy = sheet.work(c.utilization, rate, service, servers)
    try:
        wait = sheet.work(c.mmc_wait, rate, service, servers) if several else sheet.work(c.mg1_wait, rate, service, values["cv"])
    except OverloadError as error:
        sheet.answer("Utilization", busy.to("%"), "%", ".0f")
        sheet.refused = str(error)[0].upper() + str(error)[1:] + "."
        _plot(sheet, values, servers, None)
        return
    whole = wait + service.to("s")
    sheet.answer("Time in the system", whole, "", ".3g", note=f"{show(wait, '', '.3g')} of waiting, {show(service.to('s'))} of service")
    sheet.answer("Utilization", busy.to("%"), "%", ".3g")
    sheet.answer("In the system", sheet.work(c.in_flight, rate, whole), "req", ".3g", note="on average, by Little’s law")
    if several:
        waits = c.mmc_wait_probability(rate, service, servers)
        tail = sheet.work(c.mmc_wait_quantile, rate, service, servers, values["q"])
        sheet.answer("Have to wait", waits.to("%"), "%", ".3g")
        sheet.answer(f"Wait, p{100 * values['q']:g}", tail, "", ".3g")
    knee, at_knee = _knee(sheet, values, servers)
    sheet.answer("The knee", f"{knee:.0%}", note=f"{at_knee:.3g} requests a second make it {values['slowdown']:g} × the service time")
    side = "below" if float(busy) <= knee else "beyond"
    sheet.verdict = f"{float(busy):.0%} busy, {side} the knee: a request takes {(whole / service).base:.2f} times its service."
    sheet.notes.append(
        "Poisson arrivals, first come first served, an endless queue, each server one request at a time. "
        "Real traffic is burstier and waits longer; an engine that batches slows down with its batch, which the capacity planner models."
    )
    _plot(sheet, values, servers, float((whole / service).base))


def _slowdown(values: Mapping[str, Any], servers: int, busy: float) -> float:
    if values["queue"] == SEVERAL:
        return 1 + c.mmc_wait(busy * servers, 1, servers).value
    return 1 + c.mg1_wait(busy, 1, values["cv"]).value


def _knee(sheet: Sheet, values: Mapping[str, Any], servers: int) -> tuple[float, float]:
    """The utilization at which time in the system is `slowdown` times the service, and the arrivals that bring it there."""
    if values["queue"] == ONE:
        busy = float(sheet.work(c.knee_utilization, values["slowdown"], values["cv"]))
    else:
        low, busy = 0.0, 1.0 - 1e-9
        for _ in range(30):
            middle = (low + busy) / 2
            low, busy = (middle, busy) if _slowdown(values, servers, middle) < values["slowdown"] else (low, middle)
    return busy, busy * servers / values["service"].to("s").value


def _plot(sheet: Sheet, values: Mapping[str, Any], servers: int, here: float | None) -> None:
    loads = [n / 100 for n in (*range(0, 90, 3), *range(90, 99), 98.5, 99)]
    name = f"{servers} servers" if values["queue"] == SEVERAL and servers > 1 else "one server"
    x, y = curve(loads, lambda busy: _slowdown(values, servers, busy))
    shown = [(100 * a, b) for a, b in zip(x, y, strict=True) if b <= 12]
    lines = [Line(name, "predicted", tuple(a for a, _ in shown), tuple(b for _, b in shown))]
    if values["queue"] == SEVERAL and servers > 1:
        x, y = curve(loads, lambda busy: 1 + c.mg1_wait(busy, 1, 1).value)
        pairs = [(100 * a, b) for a, b in zip(x, y, strict=True) if b <= 12]
        lines.append(Line("one server", "limit", tuple(a for a, _ in pairs), tuple(b for _, b in pairs)))
    lines.append(Line("service alone", "limit", (0.0, 100.0), (1.0, 1.0)))
    busy = 100 * float(c.utilization(values["rate"], values["service"], servers))
    if here is not None and here <= 12:
        lines.append(Line(f"you: {here:.2f}×", "predicted", (busy,), (here,)))
    sheet.plot = Plot("Time in the system, by utilization", "utilization, %", "time in the system, × service", tuple(lines))
    sheet.see = "Flat, then a wall. Several servers behind one line keep it flat for longer."
