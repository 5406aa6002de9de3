"""Words of the search index: English as the builder splits it, Chinese by pairs of characters.

Why: the builder takes a run of Chinese for one word, so that 显存 would be found only where nothing Chinese stands beside it. Pairs of
neighbours (and single characters, for a query of one) need no dictionary, and a query of several must have them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sphinx.search.en import SearchEnglish

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{HAN}]+|[^{HAN}]+")


def words(text: str) -> Iterator[str]:
    """What the index holds of a word: itself, or each character and each pair of its Chinese runs."""
    for run in _RUN.findall(text):
        if not re.match(f"[{HAN}]", run):
            yield run
        else:
            yield from run
            yield from (run[at : at + 2] for at in range(len(run) - 1))


class EnglishAndChinese(SearchEnglish):
    """The search language of the course. `js_splitter_code` cuts a query: a run of Chinese into its pairs, a single character as it is."""

    lang = "en-zh"
    language_name = "English and Chinese"
    js_splitter_code = r"""
function splitQuery(query) {
  const words = query.split(/[^\p{Letter}\p{Number}_\p{Emoji_Presentation}]+/gu).filter((word) => word);
  const runs = words.flatMap((word) => word.match(/[HAN]+|[^HAN]+/g));
  const pairs = (run) => (run.length < 2 ? [run] : Array.from({ length: run.length - 1 }, (_, at) => run.slice(at, at + 2)));
  return runs.flatMap((run) => (/[HAN]/.test(run) ? pairs(run) : [run]));
}
""".replace("HAN", HAN.encode("ascii", "backslashreplace").decode())

    def split(self, input: str) -> list[str]:
        return [word for found in super().split(input) for word in words(found)]
