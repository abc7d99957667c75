"""Agents that exhaust shared resources of the service: its ports and its copies."""

from pathlib import Path

import httpx
import pytest

from tests.support.hostile_service import FILES, HostileService
from tests.support.service import sample_repository, wait_until

HOLDING = r"""
port = 3128 if "HTTPS_PROXY" in os.environ else 8462
held = []
for number in range(600):
    try:
        held.append(socket.create_connection(("127.0.0.1", port), 5))
        held[-1].sendall([b"", b"GET ", b"POST / HTTP/1.1\r\n"][number % 3])
    except OSError:
        pass
print("held", len(held), flush=True)
signal.pause()
"""
# Detects by other means what `git status` could be configured to ignore.
IS_CLEAN = """
test -z "$(find . -name 'hidden*' -o -type l -o -type p -o -perm /7000 -o -name other | head)" &&
test -z "$(git status --porcelain --ignored)" && ! grep -q hidden .git/config .git/info/* &&
test "$(cat docs/f7.txt)" = 7 && echo changed > edited.txt
"""


def test_open_connections_harm_no_other_job_and_end_with_the_job(hostile: HostileService) -> None:
    before = hostile.descriptors()
    jobs = [hostile.start(agent, python=HOLDING) for agent in ("online", "with-model")]
    for job_id in jobs:
        hostile.wait_for_output(job_id, "held")
    assert hostile.descriptors() > hostile.sandbox.connection_descriptors
    # A new connection, not an existing one.
    assert httpx.get(f"{hostile.service.root_url}/healthz").status_code == 200
    for job_id in jobs:
        hostile.api.http.post(f"/jobs/{job_id}/cancel")
        hostile.api.wait_status(job_id, "cancelled")
    # The sandboxes of the next jobs have some.
    wait_until(lambda: hostile.descriptors() <= before + 100, "the connections to be closed")
    hostile.check_unharmed()


@pytest.fixture(scope="module")
def large(hostile: HostileService, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A repository with enough files that its copies are repaired and reused."""
    files = FILES | {f"docs/f{number}.txt": f"{number}\n" for number in range(600)}
    source: Path = tmp_path_factory.mktemp("source")
    hostile.service.connect(sample_repository(source / "large", files), "acme/large")
    hostile.api.wait_ready("acme/large")
    return "acme/large"


@pytest.mark.parametrize(
    "misuse",
    [
        "echo hidden > .git/info/exclude; echo x > hidden; git config alias.hidden x",
        "echo 8 > docs/f7.txt; touch -d 2001-01-01 docs/f7.txt; git add -A",
        "ln docs/f7.txt docs/other; ln -sf /etc docs/f8.txt; mkfifo docs/hidden",
        "rm -rf .git; ln -s /etc .git; chmod 000 docs .; mkdir hidden",
        "rm -rf docs; ln -s / docs; chmod g+s .",
        "mkdir -p $(yes hidden | head -500 | tr '\\n' /); chmod 000 hidden",
    ],
    ids=["excluded", "backdated", "links", "closed", "replaced", "deep"],
)
def test_a_reused_copy_is_clean(hostile: HostileService, large: str, misuse: str) -> None:
    override = {"shell": f"{misuse}; echo changed > edited.txt; exit 1"}
    job = hostile.api.finish(large, "hostile", config_override=override)
    assert job["error"]["code"] == "agent_failed"
    for _ in range(2):
        job = hostile.api.finish(large, "hostile", config_override={"shell": IS_CLEAN})
        assert job["status"] == "completed", (job, hostile.api.log(job["job_id"]))
    wait_until(lambda: hostile.leftovers() == [], "the copies to be repaired")
    hostile.check_unharmed()
