"""Stop strings end a text where they stand, however the text comes; nothing of them is given out before. (Casebook 18.)"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab.engine.stop_strings import StopStrings


def gold(text: str, stops: list[str], include: bool) -> tuple[str, str | None]:
    """Every end of every prefix, looked at one by one."""
    for end in range(len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            longest = max(ended, key=len)
            return text[: end if include else end - len(longest)], longest
    return text, None


def feed(matcher: StopStrings, pieces: list[str]) -> list[str]:
    given_out = []
    for piece in pieces:
        given_out.append(matcher.feed(piece))
        if matcher.found is not None:
            return given_out
    return [*given_out, matcher.flush()]


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces, at = [], 0
    for size in [*sizes, len(text)]:
        pieces.append(text[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        (["one STOP two"], ["STOP"], "one "),
        (["one S", "TO", "P two"], ["STOP"], "one "),
        (["one STO", "NE wall"], ["STOP"], "one STONE wall"),
        (["aaa", "ab"], ["aab"], "aa"),
        (["ababab", "ac"], ["ababac"], "ab"),
        (["User", ":"], ["User: ", "User:"], ""),
        (["x\n", "\n", "y"], ["\n\n"], "x"),
        (["it ends in ST"], ["STOP"], "it ends in ST"),
    ],
    ids=[
        "inside a token",
        "across tokens",
        "a longer text",
        "overlap",
        "fallback",
        "nested",
        "lines",
        "at the end",
    ],
)
def test_casebook_18_a_stop_string_ends_the_text_wherever_it_lies(pieces: list[str], stops: list[str], expected: str) -> None:
    given_out = feed(StopStrings(stops), pieces)
    assert "".join(given_out) == expected


texts = st.text(alphabet="ab", max_size=24)


@given(
    text=texts,
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=4), min_size=1, max_size=3, unique=True),
    sizes=st.lists(st.integers(0, 5), max_size=20),
    include=st.booleans(),
)
def test_casebook_18_streaming_equals_looking_at_the_whole_text(text: str, stops: list[str], sizes: list[int], include: bool) -> None:
    matcher = StopStrings(stops, include)
    given_out = feed(matcher, cut(text, sizes))
    expected, found = gold(text, stops, include)
    assert "".join(given_out) == expected and matcher.found == found
    for end in range(len(given_out)):
        assert expected.startswith("".join(given_out[:end])), "what is given out is never taken back"


@given(text=texts, stop=st.text(alphabet="ab", min_size=1, max_size=4), sizes=st.lists(st.integers(0, 5), max_size=20))
def test_no_more_is_held_back_than_may_become_a_stop_string(text: str, stop: str, sizes: list[int]) -> None:
    matcher, seen, out = StopStrings([stop]), "", ""
    for piece in cut(text, sizes):
        out += matcher.feed(piece)
        seen += piece
        if matcher.found:
            return
        held = max(k for k in range(len(stop)) if seen.endswith(stop[:k]))
        assert out == seen[: len(seen) - held]


@given(first=texts, then=texts, stop=st.text(alphabet="ab", min_size=1, max_size=3))
def test_a_stop_string_that_ends_before_the_matcher_is_armed_does_not_count(first: str, then: str, stop: str) -> None:
    matcher = StopStrings([stop])
    out = matcher.feed(first, armed=False) + matcher.feed(then)
    out += "" if matcher.found else matcher.flush()
    whole = first + then
    ends = [end for end in range(len(first) + 1, len(whole) + 1) if whole[:end].endswith(stop)]
    expected = whole[: ends[0] - len(stop)] if ends else whole
    assert out == expected
