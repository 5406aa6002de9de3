"""The card is asked while work runs, and a card that does not answer stops nothing. `nvidia-smi` is a script here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infer_lab.bench import card
from infer_lab.bench.card import Reading, reading, working


def test_a_line_of_nvidia_smi() -> None:
    assert reading("1755, 698.23, 61, 0x0000000000000004") == Reading(1755, 698.23, 61, ("power limit",))
    assert reading("1980, 120.5, 35, 0x0000000000000000").reasons == ()
    assert reading("1200, 700, 88, 0x0000000000000024").reasons == ("power limit", "thermal limit (software)")
    assert reading("1980, [N/A], 35") == Reading(1980, None, 35, None)
    assert reading("[N/A], [N/A], [N/A], [N/A]") == Reading(None, None, None, None)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def install(script: str) -> None:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_the_card_is_asked_while_it_works(smi: Callable[[str], None]) -> None:
    smi('echo "1500, 700, 60, 0x4"')
    steps: list[int] = []
    found = working(lambda: steps.append(0), 0.3, after=0.1)
    assert len(found) >= 1 and set(found) == {Reading(1500, 700, 60, ("power limit",))}
    assert len(steps) > len(found)


def test_an_older_driver_does_not_know_the_reasons(smi: Callable[[str], None]) -> None:
    smi('case "$*" in *reasons*) exit 2;; esac; echo "1500, 700, 60"')
    assert working(lambda: None, 0.2, after=0.0)[0] == Reading(1500, 700, 60, None)


def test_a_card_that_does_not_answer_stops_nothing(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    smi("exit 9")
    assert working(lambda: None, 0.05, after=0.0) == []
    monkeypatch.setattr(card.subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError))
    assert working(lambda: None, 0.05, after=0.0) == []
