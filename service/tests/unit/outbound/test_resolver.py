"""Isolation of lookups and the number of threads they use."""

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from agentjobs_runtime.outbound.guard.resolver import HostResolver, Lookup
from tests.support.silent_resolver import SilentResolver, silent_resolver
from tests.support.stores import until

AT_ONCE = 2


@pytest.fixture
def silent() -> Iterator[SilentResolver]:
    with silent_resolver() as names:
        yield names


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert caplog.records == []


def lookups(lookup: Lookup, threads: int = 100) -> HostResolver:
    return HostResolver(lookup, AT_ONCE, threading.Semaphore(threads))


def prompt(_host: str) -> Sequence[str]:
    return ["192.0.2.1"]


async def give_up_on(resolver: HostResolver, *hosts: str) -> None:
    tasks = [asyncio.create_task(resolver.resolve(host)) for host in hosts]
    await asyncio.wait(tasks, timeout=0.05)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_an_abandoned_lookup_counts_until_its_thread_ends(
    silent: SilentResolver,
) -> None:
    resolver = lookups(silent.lookup)
    await give_up_on(resolver, "a.test", "b.test")
    await give_up_on(resolver, "c.test", "d.test")
    assert sorted(silent.lookups) == ["a.test", "b.test"]

    silent.released.set()
    with pytest.raises(OSError, match="no such name"):
        await resolver.resolve("e.test")
    # Cancelled lookups that were still waiting do not run.
    assert sorted(silent.lookups) == ["a.test", "b.test", "e.test"]


async def test_a_waiting_lookup_starts_when_another_ends(silent: SilentResolver) -> None:
    resolver = lookups(silent.lookup)
    names = [f"{n}.test" for n in range(10)]
    tasks = [asyncio.create_task(resolver.resolve(name)) for name in names]
    await until(lambda: len(silent.lookups) == AT_ONCE)

    silent.released.set()
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    assert [str(answer) for answer in answers] == ["no such name"] * 10
    assert sorted(silent.lookups) == names


async def test_two_lookups_of_one_name_share_a_thread(silent: SilentResolver) -> None:
    resolver = lookups(silent.lookup)
    await give_up_on(resolver, "a.test", "a.test")
    await give_up_on(resolver, "a.test")
    assert silent.lookups == ["a.test"]


async def test_lookups_without_a_response_do_not_block_other_owners(silent: SilentResolver) -> None:
    await give_up_on(lookups(silent.lookup), "a.test", "b.test", "c.test")
    async with asyncio.timeout(30):
        assert await lookups(prompt).resolve("a.test") == ["192.0.2.1"]


async def test_every_owner_has_one_thread_when_all_shared_threads_are_used(
    silent: SilentResolver,
) -> None:
    threads = threading.Semaphore(AT_ONCE)
    await give_up_on(HostResolver(silent.lookup, AT_ONCE, threads), "a.test", "b.test")
    late = HostResolver(silent.lookup, AT_ONCE, threads)
    await give_up_on(late, "c.test", "d.test")
    assert sorted(silent.lookups) == ["a.test", "b.test", "c.test"]

    async with asyncio.timeout(30):
        assert await HostResolver(prompt, AT_ONCE, threads).resolve("e.test") == ["192.0.2.1"]
        silent.released.set()
        with pytest.raises(OSError, match="no such name"):
            await late.resolve("d.test")


async def test_threads_are_released(silent: SilentResolver) -> None:
    threads = threading.Semaphore(AT_ONCE)
    await give_up_on(HostResolver(silent.lookup, AT_ONCE, threads), "a.test", "b.test", "c.test")
    assert not threads.acquire(blocking=False)

    silent.released.set()
    assert all(threads.acquire(timeout=30) for _ in range(AT_ONCE))
    assert not threads.acquire(blocking=False)


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
async def test_an_address_needs_no_lookup(silent: SilentResolver, address: str) -> None:
    assert await lookups(silent.lookup).resolve(address) == [address]
    assert silent.lookups == []


async def test_a_machine_without_threads_reports_it() -> None:
    resolver = lookups(prompt, threads=1)
    before = threading.stack_size(2**46)
    try:
        with pytest.raises(OSError, match="cannot start another thread"):
            await resolver.resolve("a.test")
    finally:
        threading.stack_size(before)
    assert await resolver.resolve("a.test") == ["192.0.2.1"]


def test_a_result_after_the_event_loop_closed_is_ignored(silent: SilentResolver) -> None:
    resolvers: list[HostResolver] = []

    async def ask() -> None:
        resolvers.append(lookups(silent.lookup))
        await give_up_on(resolvers[0], "a.test")

    asyncio.run(ask())
    silent.released.set()
    for thread in threading.enumerate():
        if thread.name == "lookup":
            thread.join(30)
