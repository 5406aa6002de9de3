"""A worker without a model: its KV cache remembers, for every slot, which prefix was written there.

Why: what can go wrong in a scheduler is that somebody reads KV that belongs to another prefix, or that nobody wrote. With numbers in
the cache that shows up as slightly wrong text; here it raises. A slot's value is the identity of the whole prefix (extra keys, and all
tokens up to that position), and the "model" is a function of that identity, so the expected output is one line: `reference`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from infer_lab.core.plan import PLACEHOLDER, ScheduledRequest, StepOutput, StepPlan


class WrongKV(AssertionError):
    """A request read a slot that does not hold its own prefix."""


@dataclass(frozen=True)
class FakeParams:
    """root: what precedes the first token (the cache keys). vocab: small, so that tokens meet by chance. seed: the sampler's."""

    root: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    vocab: int = 5


def root_id(root: object) -> int:
    return crc32(repr(root).encode())  # not hash(): that of strings differs from run to run, and a seed must reproduce


def prefix_ids(root: object, token_ids: list[int]) -> list[int]:
    ids, last = [], root_id(root)
    for token in token_ids:
        last = hash((last, token))
        ids.append(last)
    return ids


def next_token(prefix_id: int, params: FakeParams) -> int:
    return hash((prefix_id, params.seed)) % params.vocab


def reference(prompt: list[int], params: FakeParams, max_total: int, stop: frozenset[int]) -> tuple[list[int], str]:
    """What a request must produce, whatever the batching: output tokens and finish reason."""
    tokens, last = [], prefix_ids(params.root, prompt)[-1]
    while True:
        tokens.append(next_token(last, params))
        last = hash((last, tokens[-1]))
        if tokens[-1] in stop:
            return tokens, "stop"
        if len(prompt) + len(tokens) >= max_total:
            return tokens, "length"


@dataclass
class Row:
    token_ids: list[int]
    params: FakeParams
    block_table: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)  # prefix identity of each of token_ids, drafts excluded


class FakeWorker:
    """Carries out plans in the documented order, and checks everything that a plan promises."""

    def __init__(self, num_blocks: int, block_size: int, num_host_blocks: int, max_tokens: int, max_seqs: int) -> None:
        self.block_size = block_size
        self.max_tokens, self.max_seqs = max_tokens, max_seqs
        self.device: list[list[int | None]] = [[None] * block_size for _ in range(num_blocks)]
        self.host: list[list[int | None]] = [[None] * block_size for _ in range(num_host_blocks)]
        self.rows: dict[str, Row] = {}
        self.had_failure = False  # after a failed step the scheduler may release rows that were never opened

    def execute(self, plan: StepPlan) -> StepOutput:
        for request_id in plan.released:
            row = self.rows.pop(request_id, None)
            assert row or self.had_failure, f"{request_id} has no row to close"
        for copies, source, destination in (
            (plan.swap_out, self.device, self.host),
            (plan.swap_in, self.host, self.device),
            (plan.copies, self.device, self.device),
        ):
            assert not {copy.source for copy in copies} & {copy.destination for copy in copies} or source is not destination
            assert len({copy.destination for copy in copies}) == len(copies), "two copies to one block"
            for copy in copies:
                assert destination is self.host or copy.destination != 0, "the null block was written"
                destination[copy.destination] = list(source[copy.source])
        for admitted in plan.admitted:
            assert admitted.request_id not in self.rows, f"{admitted.request_id} has a row already"
            assert isinstance(admitted.params, FakeParams)
            tokens = list(admitted.token_ids)
            self.rows[admitted.request_id] = Row(tokens, admitted.params, ids=prefix_ids(admitted.params.root, tokens))
        names = [scheduled.request_id for scheduled in plan.scheduled]
        assert len(set(names)) == len(names) <= self.max_seqs and plan.num_tokens <= self.max_tokens
        assert {admitted.request_id for admitted in plan.admitted} <= set(names), "a row was opened for nothing"
        for scheduled in plan.scheduled:
            self._read(scheduled)  # all reads before any write: nobody may lean on KV of this very step
        written: dict[tuple[int, int], str] = {}
        return StepOutput(plan.step_id, {s.request_id: out for s in plan.scheduled if (out := self._run(s, written)) is not None})

    def _read(self, scheduled: ScheduledRequest) -> None:
        row, size = self.rows[scheduled.request_id], self.block_size
        assert scheduled.token_ids, "nothing to compute"
        if scheduled.new_block_ids:
            assert scheduled.first_new_block == len(row.block_table)
            row.block_table += scheduled.new_block_ids
        assert 0 not in row.block_table and len(set(row.block_table)) == len(row.block_table)
        assert scheduled.start + scheduled.num_tokens <= len(row.block_table) * size
        for position in range(scheduled.start):
            held = self.device[row.block_table[position // size]][position % size]
            if held != row.ids[position]:
                what = "unwritten" if held is None else "another prefix's"
                raise WrongKV(f"{scheduled.request_id} reads {what} KV at position {position} of {scheduled.start}")
        # what is new to the table and not read is void, even if its last owner left something that looks right
        for position in range(max(scheduled.start, scheduled.first_new_block * size), len(row.block_table) * size):
            self.device[row.block_table[position // size]][position % size] = None

    def _guess(self, row: Row, count: int) -> list[int]:
        """The worker's own drafter: right most of the time, which depends on the prefix alone."""
        drafts: list[int] = []
        last = row.ids[-1]
        for _ in range(count):
            token = next_token(last, row.params)
            drafts.append(token if last % 4 else (token + 1) % row.params.vocab)
            last = hash((last, drafts[-1]))
        return drafts

    def _run(self, scheduled: ScheduledRequest, written: dict[tuple[int, int], str]) -> tuple[int, ...] | None:
        row, size, params = self.rows[scheduled.request_id], self.block_size, self.rows[scheduled.request_id].params
        end = scheduled.start + scheduled.num_tokens
        drafts = list(scheduled.draft_token_ids)
        known = row.token_ids[scheduled.start : end - len(drafts)]
        if PLACEHOLDER in drafts:
            assert set(drafts) == {PLACEHOLDER}, "guesses of the worker and of others are mixed"
            drafts = self._guess(row, len(drafts))
        given = [k if t == PLACEHOLDER else t for k, t in zip(known, scheduled.token_ids, strict=False)] + drafts
        planned = scheduled.token_ids[: len(known)]
        assert list(planned) == known or PLACEHOLDER in planned, "tokens differ from the row's"
        assert len(given) == scheduled.num_tokens, "a token was scheduled that the worker does not know"
        last = row.ids[scheduled.start - 1] if scheduled.start else root_id(params.root)
        new_ids = []
        for offset, token in enumerate(given):
            last = hash((last, token))
            new_ids.append(last)
            slot = divmod(scheduled.start + offset, size)
            place = (row.block_table[slot[0]], slot[1])
            assert place not in written, f"{scheduled.request_id} and {written.get(place)} write the same slot"
            written[place] = scheduled.request_id
            self.device[place[0]][place[1]] = last
        assert scheduled.samples == (end - len(drafts) == len(row.token_ids)), "samples exactly when KV will hold every known token"
        if not scheduled.samples:
            return None
        out = []
        for index in range(len(drafts) + 1):  # verify: the token after each position, until a draft is wrong
            out.append(next_token(new_ids[len(known) - 1 + index], params))
            if index < len(drafts) and out[-1] != drafts[index]:
                break
        for token in out:
            row.token_ids.append(token)
            row.ids.append(hash((row.ids[-1], token)))
        return tuple(out)
