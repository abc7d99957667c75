"""Every process reports its version and its configuration; the one that differs is named."""

import pytest

from agentjobs.cli.doctor.processes import check_processes, is_only_api_here
from agentjobs.fleet.processes import (
    SILENT_MS,
    FleetSize,
    ProcessInfo,
    configuration_problems,
    delete_silent_processes,
    fleet_size,
    is_first_process,
    list_processes,
    program_version,
    record_heartbeat,
    running_configurations,
    sign_off,
    this_process,
)
from agentjobs.jobs.operations.workers import list_worker_views
from agentjobs.jobs.queue import leases
from agentjobs.organizations.sessions import Viewer
from agentjobs.store.database import Database, Transaction
from agentjobs.web.dashboard.notices import notices_for
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import load
from agentjobs_runtime.settings.digest import OWN_SETTINGS, configuration_digest
from agentjobs_runtime.settings.model import Settings

SETTINGS = load({"AGENTJOBS_DATA_DIR": "/nonexistent"})


def _process(name: str, digest: str = "same", version: str = "1.0") -> ProcessInfo:
    return ProcessInfo(f"prc_{name}", "serve", name, version, digest)


def _worker(name: str, digest: str) -> WorkerInfo:
    return WorkerInfo(
        f"wrk_{name}", name, 1, agents=[], version="1.0", configuration_digest=digest, tags=["gpu"]
    )


async def _age(db: Database, process_id: str, milliseconds: int) -> None:
    async def update(tx: Transaction) -> None:
        await tx.execute(
            "UPDATE processes SET heartbeat_at = heartbeat_at - :ms WHERE id = :id",
            ms=milliseconds,
            id=process_id,
        )

    await db.transact(update)


async def test_equal_configurations_are_no_problem(database: Database) -> None:
    await record_heartbeat(database, _process("a"))
    await record_heartbeat(database, _process("b"))
    await leases.renew(database, _worker("c", "same"), [], 10)

    assert configuration_problems(await running_configurations(database)) == []


async def test_the_process_whose_configuration_differs_is_named(database: Database) -> None:
    await record_heartbeat(database, _process("a"))
    await record_heartbeat(database, _process("b"))
    await leases.renew(database, _worker("c", "other"), [], 10)

    (problem,) = configuration_problems(await running_configurations(database))

    assert problem.startswith("worker on c (wrk_c) has another configuration than serve on")
    assert "its digest is other, not same" in problem


async def test_the_settings_that_differ_are_named_without_their_values(database: Database) -> None:
    usual = load({"AGENTJOBS_DATA_DIR": "/nonexistent/a"})
    other = load(
        {
            "AGENTJOBS_DATA_DIR": "/nonexistent/b",
            "AGENTJOBS_QUEUE_LIMIT": "7",
            "AGENTJOBS_MENTION": "helper",
        }
    )
    await record_heartbeat(database, _process("a", configuration_digest(usual)))
    await leases.renew(database, _worker("c", configuration_digest(other)), [], 10)

    (problem,) = configuration_problems(await running_configurations(database))

    assert "it has other values of mention, queue_limit." in problem
    assert "helper" not in problem
    (worker,) = await list_worker_views(database, usual)
    assert len(worker.configuration_digest) == 12


async def test_another_version_is_named_instead_of_its_configuration(database: Database) -> None:
    await record_heartbeat(database, _process("a"))
    await record_heartbeat(database, _process("b", digest="other", version="2.0"))
    await record_heartbeat(database, _process("c"))

    problems = configuration_problems(await running_configurations(database))

    (problem,) = problems
    assert problem.startswith("serve on b (prc_b) runs version 2.0, most others 1.0: install")


async def test_processes_that_stopped_are_not_compared(database: Database) -> None:
    for process in (_process("a"), _process("b", "other"), _process("c", "third")):
        await record_heartbeat(database, process)
    await sign_off(database, "prc_b")
    await _age(database, "prc_c", SILENT_MS + 1)

    assert configuration_problems(await running_configurations(database)) == []
    assert [process.id for process in await list_processes(database)] == ["prc_a", "prc_c"]


async def test_a_heartbeat_keeps_the_start_and_silent_processes_are_deleted(
    database: Database,
) -> None:
    await record_heartbeat(database, _process("a"))
    await _age(database, "prc_a", 3_600_001)
    (before,) = await list_processes(database)
    await record_heartbeat(database, _process("a"))
    (after,) = await list_processes(database)

    assert after.started_at == before.started_at
    assert after.heartbeat_at > before.heartbeat_at

    await _age(database, "prc_a", 3_600_001)
    await delete_silent_processes(database)
    assert await list_processes(database) == []


async def test_the_first_process_of_a_configuration_is_known(database: Database) -> None:
    first, second = _process("a"), _process("b")
    await record_heartbeat(database, first)
    await _age(database, "prc_a", 1_000)
    await record_heartbeat(database, second)
    await record_heartbeat(database, _process("c", "other"))
    # The first one may have been killed before the second started.
    assert await is_first_process(database, "prc_b")
    await record_heartbeat(database, first)
    assert not await is_first_process(database, "prc_b")
    assert await is_first_process(database, "prc_a")
    assert await is_first_process(database, "prc_c")


async def test_a_worker_reports_its_version_configuration_and_tags(database: Database) -> None:
    await leases.renew(database, _worker("a", "digest"), [], 10)

    (worker,) = await list_worker_views(database, SETTINGS)

    assert (worker.version, worker.configuration_digest) == ("1.0", "digest")
    assert worker.tags == ["gpu"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue_limit", "5"),
        ("mention", "helper"),
        ("limit_memory_mib", "512"),
    ],
)
def test_shared_settings_change_the_digest(name: str, value: str) -> None:
    plain = load({"AGENTJOBS_DATA_DIR": "/nonexistent/a"})
    changed = load({"AGENTJOBS_DATA_DIR": "/nonexistent/a", f"AGENTJOBS_{name.upper()}": value})

    assert configuration_digest(plain) != configuration_digest(changed)


def test_settings_of_one_machine_do_not_change_the_digest() -> None:
    plain = load({"AGENTJOBS_DATA_DIR": "/nonexistent/a"})
    other = load(
        {
            "AGENTJOBS_DATA_DIR": "/nonexistent/b",
            "AGENTJOBS_PORT": "9000",
            "AGENTJOBS_SLOTS": "3",
            "AGENTJOBS_ENCRYPTION_KEY": "secret",
        }
    )

    assert configuration_digest(plain) == configuration_digest(other)
    assert this_process("serve", plain).configuration_digest == configuration_digest(other)


def test_every_setting_that_may_differ_exists() -> None:
    assert set(Settings.__struct_fields__) >= OWN_SETTINGS


async def test_only_operators_see_the_notice(database: Database) -> None:
    await record_heartbeat(database, _process("a"))
    await record_heartbeat(database, _process("b", "other"))

    (notice,) = await notices_for(database, _viewer("acme", "viewer", is_operator=True))
    assert "Serve on b (prc_b) has another configuration" in notice.text
    assert await notices_for(database, _viewer("default", "admin")) == []


async def test_doctor_names_the_process_that_differs(database: Database) -> None:
    await record_heartbeat(database, _process("a"))
    await record_heartbeat(database, _process("b", "other"))

    findings = await check_processes(SETTINGS, database)

    assert [state for _, state, _ in findings] == ["ok", "ok", "problem"]
    assert "serve on b (prc_b) has another configuration" in findings[-1].message


async def test_doctor_tells_dead_processes_from_live_ones(database: Database) -> None:
    for name, host in (("a", "a"), ("b", "a"), ("c", "c")):
        process = ProcessInfo(f"prc_{name}", "serve", host, "1.0", "same")
        await record_heartbeat(database, process)
    for dead in ("prc_b", "prc_c"):
        await _age(database, dead, 120_000)

    alive, restarted, gone = await check_processes(SETTINGS, database)

    assert (alive.state, "last heartbeat" in alive.message) == ("ok", True)
    assert restarted.state == "note"
    assert restarted.message.endswith("another one runs on this host")
    assert gone.state == "problem"
    assert "serve on c is dead or cut off: no heartbeat for 2 minutes" in gone.message


async def test_only_workers_need_what_runs_agents(database: Database) -> None:
    assert not await is_only_api_here(SETTINGS, database)
    serve = this_process("serve", SETTINGS)
    await record_heartbeat(database, serve)
    await leases.renew(database, _worker("elsewhere", "same"), [], 10)
    assert await is_only_api_here(SETTINGS, database)
    await leases.renew(database, _worker(serve.hostname, "same"), [], 10)
    assert not await is_only_api_here(SETTINGS, database)


async def test_doctor_notes_that_the_shell_has_other_settings_than_the_service(
    database: Database,
) -> None:
    other = load({"AGENTJOBS_DATA_DIR": "/nonexistent", "AGENTJOBS_QUEUE_LIMIT": "7"})
    await record_heartbeat(database, this_process("serve", SETTINGS))

    assert [each.state for each in await check_processes(SETTINGS, database)] == ["ok"]
    note = (await check_processes(other, database))[-1]

    assert note.state == "note"
    assert "this shell has other values of queue_limit than serve here" in note.message


def _viewer(organization: str, role: str, *, is_operator: bool = False) -> Viewer:
    return Viewer(
        user_id="usr_1",
        email="ada@example.com",
        name="Ada",
        role=role,
        organization_id="org_1",
        organization=organization,
        plan="free",
        session=b"",
        csrf="",
        created_at=0,
        memberships=1,
        is_operator=is_operator,
    )


async def test_workers_and_api_processes_that_are_alive_are_counted(database: Database) -> None:
    assert await fleet_size(database) == FleetSize(processes=0)
    await record_heartbeat(database, _process("a", version=program_version()))
    await record_heartbeat(database, _process("b", version="0.1"))
    assert await fleet_size(database) == FleetSize(processes=2)
    await _age(database, "prc_b", SILENT_MS + 1)
    # `up` is counted by its worker.
    up = ProcessInfo("prc_up", "up", "c", program_version(), "same")
    await record_heartbeat(database, up)
    await leases.renew(database, _worker("c", "same"), [], 10)
    assert await fleet_size(database) == FleetSize(processes=2, workers=1)


async def test_each_worker_has_a_position_among_those_that_take_work(database: Database) -> None:
    workers = [_worker(name, "same") for name in ("a", "b", "c")]
    for worker in workers:
        await leases.renew(database, worker, [], 10)
    sizes = [await fleet_size(database, worker.id) for worker in workers]
    assert sizes == [FleetSize(3, workers=3, workers_before=place) for place in range(3)]

    await database.transact(_drain, workers[0].id)

    size = await fleet_size(database, workers[2].id)
    assert size == FleetSize(3, workers=2, workers_before=1)


async def _drain(tx: Transaction, worker_id: str) -> None:
    await tx.execute("UPDATE workers SET drain_requested_at = 1 WHERE id = :id", id=worker_id)
