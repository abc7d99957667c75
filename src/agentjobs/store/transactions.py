"""What the transactions of both engines share: when they refuse, what they tell at their end."""

from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NoReturn

from agentjobs.store.database import ForeignAwait, NestedTransaction, TransactionOver

FOREIGN_AWAIT = (
    "a transaction awaited something other than its `tx`; do slow work before or after it"
)
_FAILED = "a statement of this transaction failed, so nothing more can be done in it"
_ENDED = "this transaction has ended: do not keep `tx` beyond the function it was given to"


class OpenTransaction:
    """The state of a transaction, from its begin to its end."""

    __slots__ = ("refusal", "topics")

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.topics: set[str] = set()

    def announce(self, *topics: str) -> None:
        self.check()
        self.topics.update(topics)

    def check(self) -> None:
        if self.refusal is not None:
            raise TransactionOver(self.refusal)

    def fail(self) -> None:
        self.refusal = _FAILED

    def end(self) -> None:
        self.refusal = _ENDED


current: ContextVar[OpenTransaction | None] = ContextVar("transaction", default=None)
"""The transaction that the running code is part of."""


def refuse_inside_a_transaction() -> None:
    """Another transaction could wait for this one for ever; a read would not see what it wrote."""
    tx = current.get()
    if tx is not None and tx.refusal is not _ENDED:
        raise NestedTransaction("inside a transaction use its `tx`, not the database")


def refuse_to_wait(coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
    """Raise ForeignAwait at the line that waits, so that the traceback shows it."""
    refusal = ForeignAwait(FOREIGN_AWAIT)
    with suppress(StopIteration):
        coroutine.throw(refusal)
        coroutine.close()
    raise refusal
