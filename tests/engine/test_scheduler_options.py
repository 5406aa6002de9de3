"""What the scheduler can do is within reach of those who call `LLM`."""

from __future__ import annotations

import pytest
from speculating import engine, params

from infer_lab import LLM
from infer_lab.errors import QueueFullError, UnsupportedOptionError, UserError


def finish_order(llm: LLM, monkeypatch: pytest.MonkeyPatch, **options) -> list[int]:
    """Of four prompts, by their places in the call."""
    order, step = [], llm.engine.step

    def noting() -> object:
        updates = step()
        order.extend(int(update.request_id) for update in updates if update.finish_reason)
        return updates

    with monkeypatch.context() as patch:
        patch.setattr(llm.engine, "step", noting)
        llm.generate([[i] for i in range(4)], params(max_tokens=4), **options)
    return [request_id - min(order) for request_id in order]


def test_urgent_prompts_go_first_under_the_priority_policy(loopy: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine(loopy, None, policy="priority", max_num_seqs=1) as llm:
        assert finish_order(llm, monkeypatch, priority=[9, 5, -1, 7]) == [2, 1, 3, 0]
        assert finish_order(llm, monkeypatch, priority=3) == [0, 1, 2, 3]
        assert len(list(llm.stream([1, 2], params(max_tokens=3), priority=-4, tenant="a"))) == 3


def test_a_priority_that_would_be_ignored_is_refused(loopy: LLM) -> None:
    with engine(loopy, None) as llm:
        with pytest.raises(UnsupportedOptionError, match="priority = 2 changes nothing under policy 'fcfs'"):
            llm.generate([[1]], params(), priority=2)
        for wrong in ([1, 2], "high", None):
            with pytest.raises(UserError, match="one for each of 1 prompts"):
                llm.generate([[1]], params(), priority=wrong)  # type: ignore[arg-type]
        assert llm.generate([[1]], params(max_tokens=1), priority=0)


def test_a_tenant_with_more_weight_is_served_more(loopy: LLM) -> None:
    with engine(loopy, None, max_num_seqs=1, tenant_weights={"small": 1.0, "large": 4.0}, enable_prefix_caching=False) as llm:
        streams = [llm.stream([i] * 20, params(max_tokens=2), tenant="large" if i % 2 else "small") for i in range(12)]
        order: list[int] = []
        while len(order) < 12:
            llm.llm_engine.step()
            order += [i for i, stream in enumerate(streams) if stream._state.is_finished and i not in order]  # type: ignore[attr-defined]
        assert sum(i % 2 for i in order[:6]) >= 4


def test_a_full_queue_refuses_the_whole_call(loopy: LLM) -> None:
    with engine(loopy, None, max_waiting_requests=3) as llm:
        with pytest.raises(QueueFullError, match="max_waiting_requests = 3"):
            llm.generate([[1], [2], [3], [4]], params())
        assert not llm.engine.scheduler.has_unfinished()
        assert len(llm.generate([[1], [2], [3]], params(max_tokens=2))) == 3
