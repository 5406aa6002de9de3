"""Prompt lookup: what is found, and that looking it up does not search the text again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.spec.ngram import NgramIndex

texts = st.lists(st.integers(0, 2), max_size=40)
sizes = st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def slow(token_ids: list[int], low: int, high: int, count: int) -> tuple[int, ...]:
    """The rule, by searching the whole text."""
    for n in range(min(high, len(token_ids)), low - 1, -1):
        for start in range(len(token_ids) - 1, n - 1, -1):
            if token_ids[start - n : start] == token_ids[-n:]:
                text = list(token_ids)
                for i in range(count):
                    text.append(text[start + i])
                return tuple(text[len(token_ids) :])
    return ()


@settings(max_examples=300, derandomize=True, deadline=None)
@given(texts, sizes, st.integers(1, 9), st.data())
def test_the_longest_suffix_that_stood_there_before_is_continued_as_it_was_last_time(text, size, count, data) -> None:
    index = NgramIndex(*size)
    for cut in sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6))):
        index.update(text[:cut])  # grown in any steps, the index is the same
    index.update(text)
    assert index.draft(text, count) == slow(text, *size, count)


def test_a_quotation_is_continued_from_where_it_was_taken() -> None:
    text = [10, 11, 12, 13, 14, 15, 90, 91, 11, 12]
    index = NgramIndex(2, 4)
    index.update(text)
    assert index.draft(text, 3) == (13, 14, 15)


def test_a_loop_is_drafted_beyond_the_end_of_the_text() -> None:
    index = NgramIndex(2, 3)
    text = [9, 1, 2, 3, 1, 2, 3]
    index.update(text)
    assert index.draft(text, 7) == (1, 2, 3, 1, 2, 3, 1)
    text = [5, 5, 5]
    index = NgramIndex(1, 2)
    index.update(text)
    assert index.draft(text, 4) == (5, 5, 5, 5)


@pytest.mark.parametrize("text", [[], [1], [1, 2], [1, 2, 3, 4]])
def test_a_text_without_repetition_gives_no_drafts(text: list[int]) -> None:
    index = NgramIndex(1, 4)
    index.update(text)
    assert index.draft(text, 5) == ()


def test_each_token_is_read_a_bounded_number_of_times_however_long_the_text() -> None:
    reads = 0

    class Counting(list):
        def __getitem__(self, key):
            nonlocal reads
            reads += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
            return super().__getitem__(key)

    index, text = NgramIndex(2, 4), Counting()
    for token in range(2000):
        text.append(token % 97)
        index.update(text)
        index.draft(text, 4)
    assert reads <= 2000 * 2 * (2 + 3 + 4 + 4)
