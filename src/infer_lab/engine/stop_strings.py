"""Stop strings in a growing text: found wherever they lie, and held back until they cannot be one any more.

Why characters and not tokens: a stop string may lie inside a token, or across several. Why hold back: what was streamed cannot be taken
back, so the end of the text waits as long as it may be the beginning of a stop string (as "\\nUs" for "\\nUser:").

The rule is about the text alone, so it does not matter in what pieces the text comes: the stop string that ends first ends the text, and of
several that end at the same character the longest.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Each stop string is followed by its own Knuth-Morris-Pratt automaton, so work is linear in the text. found: the one that ended it."""

    def __init__(self, stops: Sequence[str], include_in_output: bool = False) -> None:
        self._automata = [_Automaton(stop) for stop in sorted(stops, key=len, reverse=True)]
        self._include = include_in_output
        self._held = ""
        self.found: str | None = None

    def feed(self, text: str, armed: bool = True) -> str:
        """What can be given out after `text` has come. armed: False looks on, but a stop string that ends in this text does not count."""
        if self.found is not None:
            return ""
        for at, letter in enumerate(text):
            ended = [automaton.stop for automaton in self._automata if automaton.step(letter)]
            if ended and armed:
                self.found = ended[0]
                known = self._held + text[: at + 1]
                self._held = ""
                return known if self._include else known[: len(known) - len(self.found)]
        known = self._held + text
        cut = len(known) - max((automaton.matched for automaton in self._automata), default=0)
        self._held = known[cut:]
        return known[:cut]

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held


class _Automaton:
    """matched: how many characters at the end of the text are the beginning of `stop` (the most that are, short of all of it).

    _fallback[k]: the same for the text stop[:k + 1] from its second character on.
    """

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        self._fallback = [0] * len(stop)
        length = 0
        for at in range(1, len(stop)):
            while length and stop[at] != stop[length]:
                length = self._fallback[length - 1]
            length += stop[at] == stop[length]
            self._fallback[at] = length

    def step(self, letter: str) -> bool:
        """One more character of the text; True if `stop` ends with it."""
        stop, matched = self.stop, self.matched
        while matched and letter != stop[matched]:
            matched = self._fallback[matched - 1]
        matched += letter == stop[matched]
        ended = matched == len(stop)
        self.matched = self._fallback[matched - 1] if ended else matched
        return ended
