"""Agents that attack from inside an environment: its layers, what is below them, other jobs."""

import dataclasses

import pytest

from tests.hostile.test_escapes import refusals
from tests.support.hostile_service import FILES, HostileService
from tests.support.service import sample_repository

CONFIGURATION = '''
[environment]
setup = """
mkdir -p ~/tools deps
for number in 1 2 3; do echo $number > ~/tools/$number; echo $number > deps/$number; done
chmod 700 ~/tools deps
"""
'''
LISTING = """
cd /workspace; chmod 700 ~/tools deps
find ~/tools deps -printf '%p %m %y %s\\n' | sort; cat ~/tools/* deps/*; git status --porcelain
echo changed > edited.txt
"""


@pytest.fixture(scope="module")
def hostile(hostile: HostileService, tmp_path_factory: pytest.TempPathFactory) -> HostileService:
    """The jobs are those of a repository with an environment."""
    files = {**FILES, ".agentjobs.toml": CONFIGURATION, ".gitignore": "deps/\n"}
    source = sample_repository(tmp_path_factory.mktemp("environment") / "source", files)
    known = set((hostile.service.data_dir / "git").glob("*.git"))
    hostile.service.connect(source, "acme/prepared")
    hostile.api.wait_ready("acme/prepared")
    (git_dir,) = set((hostile.service.data_dir / "git").glob("*.git")) - known
    return dataclasses.replace(hostile, repo="acme/prepared", git_dir=git_dir)


def listing(hostile: HostileService) -> list[str]:
    """What a job finds in its environment."""
    finished = hostile.shell(LISTING)
    assert finished.outcome == "completed", (finished.job, finished.log)
    return [line for line in finished.log.splitlines() if not line.startswith("[agentjobs]")]


def test_no_job_changes_what_the_next_one_finds(hostile: HostileService) -> None:
    before = listing(hostile)
    assert len(before) == 14, before
    finished = hostile.python(
        """
        for top in (Path(os.environ["HOME"], "tools"), Path("deps")):
            for path in sorted(top.iterdir()):
                with path.open("r+") as file:
                    file.truncate(0)
                os.chmod(path, 0o777)
                os.setxattr(path, "user.left", b"x")
                os.link(path, f"{path}-link")
            Path(top, "1").unlink()
            os.replace(Path(top, "2"), Path(top, "moved"))
            Path(top, "planted").write_text("planted")
            os.mkfifo(Path(top, "pipe"))
            os.chmod(top, 0)
        change()
        """
    )
    assert finished.outcome == "completed", (finished.job, finished.log)
    assert set(finished.branch.files()) - {name.encode() for name in FILES} == {
        *(b".agentjobs.toml", b"edited.txt")
    }
    assert listing(hostile) == before
    snapshots = hostile.service.data_dir / "environments" / "snapshots"
    names = {path.name for path in snapshots.rglob("*")}
    assert {"1", "2", "3", "tools", "deps"} <= names
    assert not names & {"planted", "pipe", "moved", "1-link", "edited.txt"}


def test_layers_lead_neither_below_nor_out(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        home, data = os.environ["HOME"].encode(), Path(given["data_dir"])
        for place in (home, b"/workspace", b"/", b"/run/agentjobs"):
            probe(f"unmount {place}", lambda: call("umount2", place, 2))
            probe(f"remount {place}", lambda: call("mount", None, place, None, 0x20, None))
        probe("an overlay", lambda: call(
            "mount", b"overlay", b"/tmp", b"overlay", 0, b"lowerdir=/usr:/etc,userxattr"))
        for path in (data, data / "environments", data / "environments/snapshots",
                data / "workspaces", "/oldroot", "/newroot"):
            probe(str(path), lambda: os.listdir(path))
        for name in ("trusted.overlay.opaque", "trusted.overlay.redirect", "security.capability"):
            probe(name, lambda: os.setxattr(home, name, b"/deps"))
        probe("a device", lambda: os.mknod(home + b"/memory", stat.S_IFCHR | 0o666, 257))
        probe("a set-uid bit", lambda: os.chmod(home + b"/tools/1", 0o4755))
        probe("another owner", lambda: os.chown(home + b"/tools/1", 0, 0))
        mounts = Path("/proc/self/mountinfo").read_text()
        print("layers:", mounts.count(" overlay "), "environments/snapshots" in mounts)
        print(Path("/proc/self/status").read_text())
        change()
        """,
        data_dir=str(hostile.service.data_dir),
    )
    refusals(finished, minimum=20)
    assert f"layers: {hostile.sandbox.overlays} False" in finished.log
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
        assert line in finished.log
    assert "Seccomp:\t2" in finished.log


@pytest.mark.parametrize("place", ["~", "/workspace"])
def test_what_is_written_to_a_layer_is_limited(hostile: HostileService, place: str) -> None:
    finished = hostile.shell(
        f"cd {place}; while :; do n=$((n+1)); head -c 4M /dev/zero > big.$n; done", agent="tight"
    )
    assert finished.message == "The agent used more than 32 MiB in the workspace."


def test_a_fork_bomb_in_an_environment_ends_with_its_job(hostile: HostileService) -> None:
    job_id = hostile.start(
        "crowded", shell="echo up; bomb() { sleep 600 & setsid sleep 600 & bomb & bomb; }; bomb"
    )
    hostile.wait_for_output(job_id, "up")
    hostile.api.http.post(f"/jobs/{job_id}/cancel")
    assert hostile.end(job_id).job["status"] in {"cancelled", "failed"}
