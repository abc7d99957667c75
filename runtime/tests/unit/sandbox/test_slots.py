"""Which slots the sandboxes of a worker have."""

import pytest

from agentjobs_runtime.sandboxes.slots import build_slots, image_slot, service_slots


@pytest.mark.parametrize("job_slots", [1, 2, 5, 50])
def test_every_sandbox_of_a_worker_has_a_slot_of_its_own(job_slots: int) -> None:
    jobs = range(job_slots)
    slots = [
        *jobs,
        *(slot for job in jobs for slot in service_slots(job_slots, job)),
        *build_slots(job_slots),
        image_slot(job_slots),
    ]
    assert len(set(slots)) == len(slots)
    assert max(slots) == build_slots(job_slots)[-1], "which bounds the uids"


@pytest.mark.parametrize(("job_slots", "builds"), [(1, 2), (2, 2), (5, 5), (50, 8)])
def test_builds_have_at_least_two_slots_so_that_no_organization_has_all(
    job_slots: int, builds: int
) -> None:
    assert len(build_slots(job_slots)) == builds
