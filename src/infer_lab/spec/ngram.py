"""Drafts without a model: what followed the last few tokens the last time that they stood in the text.

Why it works: answers quote their prompt (summaries, edits, code), and text repeats itself. Costs no forward pass. (Prompt lookup decoding,
Saxena 2023; "n-gram" in vLLM.)

    token_ids   … 7 8 9 [4 5] 6 2 … 8 9 [4 5] ▢ ▢ ▢       the suffix 4 5 stood there before; the drafts are 6, 2, …
"""

from __future__ import annotations

from collections.abc import Sequence


class NgramIndex:
    """Where each n-gram of one sequence, min_n ≤ n ≤ max_n, was last followed by something.

    Why an index: searching the text again for every token would cost its whole length each time. Here each token is filed once, under
    max_n − min_n + 1 keys, and a lookup tries as many. With the default sizes that is about 0.5 kB a token, a hundredth of its KV.
    """

    def __init__(self, min_n: int, max_n: int) -> None:
        assert 1 <= min_n <= max_n
        self._min_n, self._max_n = min_n, max_n
        self._next: dict[tuple[int, ...], int] = {}  # n-gram → position of the token after its latest occurrence
        self._num_filed = 0  # n-grams that end before this position are filed

    def update(self, token_ids: Sequence[int]) -> None:
        """File what is new since the last call. The sequence may only have grown at its end. The last token's n-grams stay out until
        something follows them."""
        for end in range(self._num_filed, len(token_ids) - 1):
            for n in range(self._min_n, min(self._max_n, end + 1) + 1):
                self._next[tuple(token_ids[end + 1 - n : end + 1])] = end + 1
        self._num_filed = max(self._num_filed, len(token_ids) - 1)

    def draft(self, token_ids: Sequence[int], count: int) -> tuple[int, ...]:
        """Up to `count` tokens that may follow; () if no suffix of min_n tokens or more stood there before. The longest suffix wins, then
        its latest occurrence. Where the copy reaches the end of the text it goes on with its own copies, so a loop is drafted whole."""
        for n in range(min(self._max_n, len(token_ids)), self._min_n - 1, -1):
            start = self._next.get(tuple(token_ids[-n:]))
            if start is not None:
                period = len(token_ids) - start
                return tuple(token_ids[start + i % period] for i in range(count))
        return ()
