"""From logits to tokens: greedy, or drawn at a temperature from the tokens that min_p, top_k and top_p leave; every row by its own
parameters.

The seam that the executor and speculative decoding use:

    rows = sampler.rows(scheduled)              which request, which drafts, which position stand behind each row of logits
    sample(logits, rows)                        a token for each row
    target_distribution(logits, rows)           or the log-probabilities that it is drawn with
    sampler.append({request_id: tokens})        what the requests have got in the end
    sampler.logprobs(…), sampler.prompt_logprobs(…)

A draw is an exponential race: token t gets an exponential waiting time E_t, and the smallest E_t / p_t wins, which happens with probability
p_t (the Gumbel-max trick in other words). Unlike walking along a cumulative sum, the last bit of a logit moves nobody else's chance, so a
seeded request gives the same tokens alone and batched unless two candidates are all but tied. E_t comes from (seed, position, t) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from infer_lab.core.plan import AdmittedRequest, ScheduledRequest, TokenLogprobs
from infer_lab.sample.filters import candidates, has_filter
from infer_lab.sample.logits import process_logits
from infer_lab.sample.logprobs import token_logprobs
from infer_lab.sample.philox import uniforms, uniforms_at
from infer_lab.sample.row_state import RowState, SampleRows, TokenCounts

# Below it float32 would divide by a number that is not normal. Logits differ by 1e-7 at least or not at all, so this is greedy already.
_MIN_TEMPERATURE = 1e-30
_PROMPT_ROWS = 64  # logits of so many prompt tokens at a time: [64, 151_936] float32 are 39 MB


def sample(logits: Tensor, rows: SampleRows) -> Tensor:
    """Token ids [rows] on the CPU. logits: float32 [rows, vocab], left as they were."""
    logits = process_logits(logits, rows)
    tokens = logits.argmax(dim=-1)
    for index, scores, ids in _random_rows(logits, rows):
        seeds = torch.tensor([rows.states[i].params.seed for i in index], device=logits.device)
        positions = torch.tensor([rows.positions[i] for i in index], device=logits.device)
        tokens[torch.tensor(index, device=logits.device)] = draw(scores, seeds, positions, ids)
    return tokens.cpu()


def target_distribution(logits: Tensor, rows: SampleRows) -> Tensor:
    """Log-probabilities float32 [rows, vocab] after every option: what `sample` draws each row's token from. A greedy row has 0 at its
    token and -inf elsewhere."""
    logits = process_logits(logits, rows)
    result = torch.full_like(logits, float("-inf")).scatter_(1, logits.argmax(dim=-1, keepdim=True), 0.0)
    for index, scores, ids in _random_rows(logits, rows):
        logprobs = scores.log_softmax(dim=-1)
        if ids is not None:
            logprobs = torch.full((len(index), logits.shape[-1]), float("-inf"), device=logits.device).scatter_(1, ids, logprobs)
        result[torch.tensor(index, device=logits.device)] = logprobs
    return result


def draw(scores: Tensor, seeds: Tensor, positions: Tensor, ids: Tensor | None = None, stream: int = 0) -> Tensor:
    """One token id a row, with probability softmax(scores): scores float32 [rows, n], seeds and positions int64 [rows].

    ids: which tokens the scores are of, int64 [rows, n], the likeliest first; None: of the whole vocabulary. The token does not depend on
    which of the two it is. stream: another one gives other numbers at the same seed and position (a drafter's, say).
    """
    if ids is None:
        uniform = uniforms(seeds, positions, scores.shape[-1], stream)
    else:
        most = int((scores > float("-inf")).sum(dim=-1).max())  # they stand in descending order
        scores, ids = scores[:, :most], ids[:, :most]
        uniform = uniforms_at(seeds, positions, ids, stream)
    # argmin E / p  =  argmax log p - log E,  E = -log(1 - u)
    winner = (scores - torch.log(-torch.log1p(-uniform))).argmax(dim=-1)
    return winner if ids is None else ids.gather(1, winner.unsqueeze(1)).squeeze(1)


def _random_rows(logits: Tensor, rows: SampleRows) -> Iterator[tuple[list[int], Tensor, Tensor | None]]:
    """(rows, scores, token ids) of those that are not greedy, in groups: the scores are unnormalized log-probabilities, of all tokens where
    the ids are None."""
    vocab = logits.shape[-1]
    drawn = [i for i, state in enumerate(rows.states) if not state.params.is_greedy]
    free = [i for i in drawn if not has_filter(rows.states[i].params, vocab)]
    if free:
        yield free, _scores(logits, rows, free), None
    filtered = [i for i in drawn if has_filter(rows.states[i].params, vocab)]
    if filtered:
        for group in candidates(_scores(logits, rows, filtered), [rows.states[i].params for i in filtered]):
            yield [filtered[i] for i in group.rows.tolist()], group.scores, group.ids


def _scores(logits: Tensor, rows: SampleRows, index: list[int]) -> Tensor:
    """Logits over temperature, the largest at 0."""
    params = [rows.states[i].params for i in index]
    assert all(p.seed is not None for p in params), "a request that samples has its seed by now"
    temperature = torch.tensor([max(p.temperature, _MIN_TEMPERATURE) for p in params], dtype=torch.float32, device=logits.device)
    chosen = logits if len(index) == len(logits) else logits[torch.tensor(index, device=logits.device)]
    # the largest becomes exactly 0 before the division: a tiny temperature gives -inf for the others and never inf - inf
    return (chosen - chosen.amax(dim=-1, keepdim=True)) / temperature.unsqueeze(1)


class Sampler:
    """The requests that the worker has rows for, as far as sampling is concerned."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self.counts = TokenCounts(vocab_size, device)
        self.states: dict[str, RowState] = {}
        self._with_logprobs: set[str] = set()
        self._with_prompt_logprobs: set[str] = set()

    def admit(self, request: AdmittedRequest) -> None:
        assert request.request_id not in self.states
        state = self.states[request.request_id] = RowState.of(request, self.counts)
        if state.params.logprobs is not None:
            self._with_logprobs.add(request.request_id)
        if state.params.prompt_logprobs is not None:
            self._with_prompt_logprobs.add(request.request_id)

    def release(self, request_id: str) -> None:
        """Nothing happens if it is not there, as with the rows of the input batch."""
        state = self.states.pop(request_id, None)
        self._with_logprobs.discard(request_id)
        self._with_prompt_logprobs.discard(request_id)
        if state is not None and state.slot >= 0:
            self.counts.close(state.slot)

    def clear(self) -> None:
        for request_id in list(self.states):
            self.release(request_id)

    def rows(self, scheduled: Sequence[ScheduledRequest]) -> SampleRows:
        """num_drafts + 1 rows for each of these requests, which all sample: row j takes the first j drafts for granted.

        Drafts are tokens here: whoever guesses for PLACEHOLDERs puts its guesses in their place first."""
        states, drafts, positions = [], [], []
        for request in scheduled:
            state, guesses = self.states[request.request_id], request.draft_token_ids if request.num_drafts else ()
            after = request.start + len(request.token_ids)  # position of the token that follows the last one
            for j in range(len(guesses) + 1):
                states.append(state)
                drafts.append(guesses[:j])
                positions.append(after - len(guesses) + j)
        return SampleRows(states, drafts, positions, self.counts)

    def append(self, tokens: Mapping[str, tuple[int, ...]]) -> None:
        """These are the new tokens of the requests."""
        slots, ids = [], []
        for request_id, new in tokens.items():
            state = self.states[request_id]
            state.num_output += len(new)
            if state.slot >= 0:
                slots += [state.slot] * len(new)
                ids += new
        self.counts.add(slots, ids)

    def logprobs(
        self, logits: Tensor, scheduled: Sequence[ScheduledRequest], tokens: Mapping[str, tuple[int, ...]]
    ) -> dict[str, tuple[TokenLogprobs, ...]]:
        """For the requests that want them: of their new tokens. logits: the model's own, the rows of `rows(scheduled)`."""
        if not self._with_logprobs:
            return {}
        asked: list[tuple[str, int, int, int]] = []  # request, row, token, k
        at = 0
        for request in scheduled:
            name = request.request_id
            k = self.states[name].params.logprobs
            if k is not None:
                asked += [(name, at + j, token, k) for j, token in enumerate(tokens[name])]
            at += request.num_drafts + 1
        if not asked:
            return {}
        names, index, ids, ks = zip(*asked, strict=True)
        found = token_logprobs(logits[torch.tensor(index, device=logits.device)], ids, ks)
        result: dict[str, tuple[TokenLogprobs, ...]] = {}
        for name, entry in zip(names, found, strict=True):
            result[name] = (*result.get(name, ()), entry)
        return result

    def prompt_logprobs(
        self, scheduled: Sequence[ScheduledRequest], hidden: Tensor, logits_of: Callable[[Tensor], Tensor]
    ) -> dict[str, tuple[TokenLogprobs, ...]]:
        """For the requests that want them: of the prompt tokens that follow those of this step.

        hidden: [tokens, hidden_size] of the requests in this order. logits_of: the model's head, float32 [rows, vocab].
        """
        if not self._with_prompt_logprobs:
            return {}
        result = {}
        at = 0
        for request in scheduled:
            state = self.states.get(request.request_id)
            k = None if state is None else state.params.prompt_logprobs
            if state is not None and k is not None and request.start + 1 < len(state.prompt):
                following = state.prompt[request.start + 1 : request.start + 1 + len(request.token_ids)]
                found: list[TokenLogprobs] = []
                for first in range(0, len(following), _PROMPT_ROWS):
                    ids = following[first : first + _PROMPT_ROWS]
                    found += token_logprobs(logits_of(hidden[at + first : at + first + len(ids)]), ids, [k] * len(ids))
                result[request.request_id] = tuple(found)
            at += len(request.token_ids)
        return result

    def check_invariants(self) -> None:
        slots = [state.slot for state in self.states.values() if state.slot >= 0]
        assert len(set(slots)) == len(slots) == self.counts.num_open
        if slots:
            totals = self.counts.output[torch.tensor(slots, device=self.counts.output.device)].sum(dim=-1).tolist()
            assert totals == [state.num_output for state in self.states.values() if state.slot >= 0]
