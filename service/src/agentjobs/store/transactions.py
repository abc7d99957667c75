"""State shared by transactions of both engines: when they refuse, and the topics they announce."""

from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NoReturn

from agentjobs.store.database import ForeignAwait, NestedTransaction, TransactionEnded

FOREIGN_AWAIT = (
    "a transaction awaited something other than its `tx`; do slow work before or after it"
)
_FAILED = "a statement of this transaction failed, so the transaction cannot continue"
_COMPLETE = "the last statement of this transaction has run"
_ENDED = "this transaction has ended: do not use `tx` after the function it was passed to"


class OpenTransaction:
    """The state of a transaction."""

    __slots__ = ("refusal", "topics")

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.topics: set[str] = set()

    def announce(self, *topics: str) -> None:
        self.check_result()
        self.topics.update(topics)

    def check(self) -> None:
        if self.refusal is not None:
            raise TransactionEnded(self.refusal)

    def check_result(self) -> None:
        """A statement that failed, although the work caught its error, undoes the transaction."""
        if self.refusal is not _COMPLETE:
            self.check()

    def complete(self) -> None:
        """After the last statement."""
        self.refusal = _COMPLETE

    def fail(self) -> None:
        self.refusal = _FAILED

    def end(self) -> None:
        self.refusal = _ENDED


current: ContextVar[OpenTransaction | None] = ContextVar("transaction", default=None)
"""The transaction that the running code is part of."""


def forbid_inside_transaction() -> None:
    """A nested transaction could deadlock, and a read would not see uncommitted changes."""
    tx = current.get()
    if tx is not None and tx.refusal is not _ENDED:
        raise NestedTransaction("inside a transaction, use its `tx` instead of the database")


def raise_foreign_await(coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
    """Raise ForeignAwait at the awaiting line, so that the traceback shows it."""
    refusal = ForeignAwait(FOREIGN_AWAIT)
    with suppress(StopIteration):
        coroutine.throw(refusal)
        coroutine.close()
    raise refusal
