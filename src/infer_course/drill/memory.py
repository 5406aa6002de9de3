"""How well each card is remembered: FSRS-6, replayed from the log of reviews.

Why replayed: the log is the only truth. Two machines that merge their logs agree on every due date, and better parameters would need no
migration. Twenty-four hours are a day, there are no learning steps and no random fuzz, and no interval is longer than a year: with that,
fsrs 6.3 here and ts-fsrs 5.4 in the browser give the same due dates (`tests/fixtures/drill_log.json`).
Source of the model: the open spaced repetition project, FSRS-6 with its default parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fsrs import Card, Rating, Scheduler, State

DAY_MS = 86_400_000
AGAIN, HARD, GOOD, EASY = 1, 2, 3, 4
_SCHEDULER = Scheduler(learning_steps=(), relearning_steps=(), maximum_interval=365, enable_fuzzing=False)


@dataclass(frozen=True, slots=True)
class Memory:
    """A card that was reviewed at least once. Stability is in days (recall has fallen to 90 % after that many); times in ms since 1970."""

    stability: float
    difficulty: float
    first: int
    last: int
    due: int
    reviews: int
    lapses: int
    rating: int

    @property
    def days(self) -> int:
        """The interval until it is due, in whole days."""
        return (self.due - self.last) // DAY_MS


def after(before: Memory | None, at: int, rating: int) -> Memory:
    """The memory after a review at `at` (ms since 1970) that was graded `rating` (1 again, 2 hard, 3 good, 4 easy)."""
    if before is None:
        card = Card(card_id=0)
    else:
        card = Card(0, State.Review, None, before.stability, before.difficulty, _utc(before.due), _utc(before.last))
    found, _ = _SCHEDULER.review_card(card, Rating(rating), _utc(at))
    assert found.stability is not None and found.difficulty is not None
    return Memory(
        stability=found.stability,
        difficulty=found.difficulty,
        first=before.first if before else at,
        last=at,
        due=round(found.due.timestamp() * 1000),
        reviews=before.reviews + 1 if before else 1,
        lapses=before.lapses + (rating == AGAIN) if before else 0,
        rating=rating,
    )


def replay(reviews: Iterable[Mapping[str, Any]]) -> dict[str, Memory]:
    """The memory of every card in the log, whatever the order in which the reviews are given."""
    found: dict[str, Memory] = {}
    for review in sorted(reviews, key=lambda review: (review["at"], review["card"])):
        found[review["card"]] = after(found.get(review["card"]), review["at"], review["rating"])
    return found


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
