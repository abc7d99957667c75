"""Whose turn it is: where the last look ended, among organizations and among their endpoints.

Hints in memory, of one sender and one kind of attempts. Forgotten they cost fairness for a moment,
and nothing else.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agentjobs.webhooks.concurrency import Candidate


@dataclass
class Look:
    """What a turn saw of one organization; `was_cut`: there are more endpoints that wait."""

    organization_id: str
    # In their order.
    endpoints: dict[str, None] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    was_cut: bool = False


class Cursor:
    def __init__(self) -> None:
        self.after = ""
        self.is_in_the_middle = False
        self._after_of: dict[str, str] = {}
        self._width = 1

    @property
    def places(self) -> list[str]:
        """Of organizations that do not begin at their first endpoint: "<organization> <after>"."""
        return [f"{organization} {after}" for organization, after in self._after_of.items()]

    def share_of(self, room: int) -> int:
        """How many to look at of each endpoint, so that all together fill the room."""
        return max(1, -(-room // self._width))

    def move(
        self,
        looks: Sequence[Look],
        served: Iterable[str],
        *,
        was_cut: bool,
        skipped: Collection[str] = (),
    ) -> None:
        """Behind what was looked at. `was_cut`: there are more organizations that wait; `skipped`
        are those that nobody looked at, and that keep their place."""
        after = looks[-1].organization_id if looks and was_cut else ""
        # What lies before the place where a look began was not looked at.
        self.is_in_the_middle = bool(self.after or after)
        self.after = after
        self._width = max(1, sum(len(look.endpoints) for look in looks))
        seen = {look.organization_id for look in looks}
        for organization_id in self._after_of.keys() - seen - set(skipped):
            # Nothing waits behind its place any more; what is before it has not been looked at.
            del self._after_of[organization_id]
            self.is_in_the_middle = True
        for look in looks:
            self._leave(look, set(served))

    def _leave(self, look: Look, served: set[str]) -> None:
        """Before the first endpoint that there was no room for; else behind the last one."""
        began = self._after_of.pop(look.organization_id, "")
        passed_over = {one.endpoint_id for one in look.candidates} - served
        after = began
        for endpoint_id in look.endpoints:
            if endpoint_id in passed_over:
                break
            after = endpoint_id
        else:
            after = after if look.was_cut else ""
            self.is_in_the_middle |= bool(began or after)
        if after:
            self._after_of[look.organization_id] = after
