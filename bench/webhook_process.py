"""Runs a part of a benchmark in its own process and event loop, called by method names."""

import asyncio
import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from multiprocessing.connection import Connection
from typing import Any

import uvloop

Part = Callable[..., AbstractAsyncContextManager[Any]]
Ask = Callable[..., Any]


@contextlib.contextmanager
def in_a_process(part: Part, *arguments: Any) -> Iterator[Ask]:
    """`ask("name", …)` awaits that method in the process and returns its result."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_run, args=(part, arguments, theirs))
    process.start()
    theirs.close()

    def ask(*question: Any) -> Any:
        ours.send(question)
        return ours.recv()

    try:
        ours.recv()
        yield ask
    finally:
        with contextlib.suppress(BrokenPipeError):
            ours.send(None)
        process.join()


def _run(part: Part, arguments: tuple[Any, ...], pipe: "Connection[Any, Any]") -> None:
    uvloop.run(_serve(part, arguments, pipe))


async def _serve(part: Part, arguments: tuple[Any, ...], pipe: "Connection[Any, Any]") -> None:
    async with part(*arguments) as running:
        pipe.send("ready")
        while question := await asyncio.to_thread(pipe.recv):
            name, *given = question
            pipe.send(await getattr(running, name)(*given))
