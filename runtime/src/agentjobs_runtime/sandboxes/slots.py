"""Numbers the sandboxes of a worker: each of them has a slot, and so a uid, of its own.

The slots of the jobs come first.
"""

MAX_SERVICES = 8
MIN_BUILDS, MAX_BUILDS = 2, 8


def image_slot(job_slots: int) -> int:
    return job_slots + 1


def service_slots(job_slots: int, job_slot: int) -> range:
    first = job_slots + 2 + job_slot * MAX_SERVICES
    return range(first, first + MAX_SERVICES)


def build_slots(job_slots: int) -> tuple[int, ...]:
    """At least two, because no organization may have all of them."""
    count = min(max(job_slots, MIN_BUILDS), MAX_BUILDS)
    after_services = service_slots(job_slots, job_slots).start
    return job_slots, *range(after_services, after_services + count - 1)
