"""Several sequences from one prompt (n > 1): computed once, shared by all.

Why siblings are held back: if all n entered the queue at once, all would compute the same prompt at the same time. So the first
leads; when its prompt has KV, the others come in by *forking* it: full prompt blocks are shared, the last partly used one is
copied, and each computes one token, the prompt's last, to sample its own first token. If the leader goes away before that, the next
one leads.
"""

from __future__ import annotations

from collections.abc import Callable

from infer_lab.core.request import Request, RequestStatus


def make_children(parent_id: str, n: int, make: Callable[[str, int], Request]) -> list[Request]:
    """n requests named `parent#0` …; `make(request_id, index)` builds each (its own seed, say)."""
    return [make(f"{parent_id}#{index}", index) for index in range(n)]


class Group:
    """members: those alive. held: those that wait for the leader, in order."""

    def __init__(self, group_id: str, children: list[Request]) -> None:
        self.group_id = group_id
        self.members = {child.request_id: child for child in children}
        self.held = children[1:]
        self.leader = children[0]

    def release_held(self) -> list[Request]:
        held, self.held = self.held, []
        return held

    def remove(self, request: Request) -> Request | None:
        """A member finished. If it led and nobody has taken over the prompt yet, the next one leads: it is returned, to be queued."""
        del self.members[request.request_id]
        if request in self.held:
            self.held.remove(request)
        elif request is self.leader and self.held:
            self.leader = self.held.pop(0)
            return self.leader
        return None

    def running(self) -> list[Request]:
        return [member for member in self.members.values() if member.status is RequestStatus.RUNNING]
