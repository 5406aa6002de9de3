"""The grade that the ticks on a rubric speak for; the reader decides."""

from __future__ import annotations

from collections.abc import Collection

from infer_course.drill.memory import AGAIN, EASY, GOOD, HARD
from infer_course.drill.queue import DrillCard

LEVELS = ("junior", "mid", "senior")


def suggestion(card: DrillCard, ticked: Collection[str]) -> int | None:
    """None where nothing is ticked. What counts are the items up to the card's own level: all of them are good, half of them hard, fewer
    forgotten; something of a level above on top of all is easy. With a red flag it is never more than hard."""
    known = [level for item, level in card.rubric if item in ticked]
    if not known:
        return None
    own = LEVELS.index(card.level)
    needed = [item for item, level in card.rubric if level != "red_flag" and LEVELS.index(level) <= own]
    had = sum(item in ticked for item in needed)
    beyond = any(level != "red_flag" and LEVELS.index(level) > own for level in known)
    if 2 * had < len(needed):
        grade = AGAIN
    elif had < len(needed):
        grade = HARD
    else:
        grade = EASY if beyond else GOOD
    return min(grade, HARD) if "red_flag" in known else grade
