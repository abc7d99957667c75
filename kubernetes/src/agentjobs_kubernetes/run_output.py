"""The output of one command, on its way from a pod to the caller."""

import asyncio

from agentjobs_worker.sandbox.output_tail import OutputTail
from agentjobs_worker.sandbox.protocol import OnOutput


class RunOutput:
    """`failed` is done when the caller's callback raised; nothing is passed on after that.

    `offset` counts what was received. `may_skip`: an earlier worker has what comes before the first
    output.
    """

    def __init__(self, on_output: OnOutput, *, may_skip: bool = False) -> None:
        self.offset = 0
        self.may_skip = may_skip
        self.tail = OutputTail()
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._on_output = on_output

    def receive(self, data: bytes) -> None:
        self.offset += len(data)
        if self.failed.done():
            return
        self.tail.add(data)
        try:
            self._on_output(data)
        except Exception as error:  # noqa: BLE001 - the run raises it
            self.failed.set_result(error)
