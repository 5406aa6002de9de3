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

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from infer_lab.core.plan import AdmittedRequest, ScheduledRequest, TokenLogprobs
from infer_lab.sample.filters import keep_candidates
from infer_lab.sample.logits import process_logits
from infer_lab.sample.logprobs import token_logprobs
from infer_lab.sample.philox import uniforms
from infer_lab.sample.row_state import RowState, SampleRows, TokenCounts

# Below it float32 would divide by a number that is not normal. Logits differ by 1e-7 at least or not at all, so this is greedy already.
_MIN_TEMPERATURE = 1e-30
_PROMPT_ROWS = 64  # logits of so many prompt tokens at a time: [64, 151_936] float32 are 39 MB


def sample(logits: Tensor, rows: SampleRows) -> Tensor:
    """Token ids [rows] on the CPU. logits: float32 [rows, vocab], left as they were."""
    logits = process_logits(logits, rows)
    tokens = logits.argmax(dim=-1)
    drawn = [i for i, state in enumerate(rows.states) if not state.params.is_greedy]
    if drawn:
        index = torch.tensor(drawn, device=logits.device)
        chosen = rows.select(drawn)
        tokens[index] = draw(_scores(logits[index], chosen), *_streams(chosen, logits.device))
    return tokens.cpu()


def target_distribution(logits: Tensor, rows: SampleRows) -> Tensor:
    """Log-probabilities float32 [rows, vocab] after every option: what `sample` draws each row's token from. A greedy row has 0 at its
    token and -inf elsewhere."""
    logits = process_logits(logits, rows)
    result = torch.full_like(logits, float("-inf")).scatter_(1, logits.argmax(dim=-1, keepdim=True), 0.0)
    drawn = [i for i, state in enumerate(rows.states) if not state.params.is_greedy]
    if drawn:
        index = torch.tensor(drawn, device=logits.device)
        result[index] = _scores(logits[index], rows.select(drawn)).log_softmax(dim=-1)
    return result


def draw(scores: Tensor, seeds: Tensor, positions: Tensor, stream: int = 0) -> Tensor:
    """One token id a row, with probability softmax(scores): scores float32 [rows, vocab], seeds and positions int64 [rows].

    stream: another one gives other numbers at the same seed and position (a drafter's, say)."""
    uniform = uniforms(seeds, positions, scores.shape[-1], stream)
    # argmin E / p  =  argmax log p - log E,  E = -log(1 - u)
    return (scores - torch.log(-torch.log1p(-uniform))).argmax(dim=-1)


def _scores(logits: Tensor, rows: SampleRows) -> Tensor:
    """Logits over temperature, the largest at 0, -inf for what may not be drawn."""
    params = [state.params for state in rows.states]
    temperature = torch.tensor([max(p.temperature, _MIN_TEMPERATURE) for p in params], dtype=torch.float32, device=logits.device)
    # the largest becomes exactly 0 before the division: a tiny temperature gives -inf for the others and never inf - inf
    scores = (logits - logits.amax(dim=-1, keepdim=True)) / temperature.unsqueeze(1)
    return keep_candidates(scores, params)


def _streams(rows: SampleRows, device: torch.device) -> tuple[Tensor, Tensor]:
    assert all(state.params.seed is not None for state in rows.states), "a request that samples has its seed by now"
    return torch.tensor([state.params.seed for state in rows.states], device=device), torch.tensor(list(rows.positions), device=device)


class Sampler:
    """The requests that the worker has rows for, as far as sampling is concerned."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self.counts = TokenCounts(vocab_size, device)
        self.states: dict[str, RowState] = {}

    def admit(self, request: AdmittedRequest) -> None:
        assert request.request_id not in self.states
        self.states[request.request_id] = RowState.of(request, self.counts)

    def release(self, request_id: str) -> None:
        """Nothing happens if it is not there, as with the rows of the input batch."""
        state = self.states.pop(request_id, None)
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
        asked: list[tuple[str, int, int]] = []  # request, row, k
        at = 0
        for request in scheduled:
            k = self.states[request.request_id].params.logprobs
            if k is not None:
                asked += [(request.request_id, at + j, k) for j in range(len(tokens[request.request_id]))]
            at += request.num_drafts + 1
        if not asked:
            return {}
        ids = [token for request_id in dict.fromkeys(name for name, _, _ in asked) for token in tokens[request_id]]
        found = token_logprobs(logits[torch.tensor([row for _, row, _ in asked], device=logits.device)], ids, [k for _, _, k in asked])
        result: dict[str, tuple[TokenLogprobs, ...]] = {}
        for (request_id, _, _), entry in zip(asked, found, strict=True):
            result[request_id] = (*result.get(request_id, ()), entry)
        return result

    def prompt_logprobs(
        self, scheduled: Sequence[ScheduledRequest], hidden: Tensor, logits_of: Callable[[Tensor], Tensor]
    ) -> dict[str, tuple[TokenLogprobs, ...]]:
        """For the requests that want them: of the prompt tokens that follow those of this step.

        hidden: [tokens, hidden_size] of the requests in this order. logits_of: the model's head, float32 [rows, vocab].
        """
        result = {}
        at = 0
        for request in scheduled:
            state = self.states[request.request_id]
            k = state.params.prompt_logprobs
            if k is not None and request.start + 1 < len(state.prompt):
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
