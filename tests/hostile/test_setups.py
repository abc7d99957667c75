"""Setups of environments that harm the worker, or leave trees that would.

Each is followed by a check that nothing of it runs or remains, and by an ordinary job.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentjobs_runtime.files.removal import remove
from tests.support.attacked_sandbox import AttackedSandbox
from tests.support.environments import EnvironmentService, environment_service
from tests.support.leftovers import Traces

AGENTS = '''
[[agents]]
id = "looker"
name = "Looker"
command = ["sh", "-c", """
echo "status: $(git status --porcelain)."
echo "app: $(cat app.py)" "guide: $(cat docs/guide.md)"
cat ~/.agent deps/agent 2>/dev/null | sh
echo changed > edited.txt
"""]
'''
FILES = {"app.py": "x = 1\n", "docs/guide.md": "# Guide\n", ".gitignore": "deps/\n*.log\n"}
AS_COMMITTED = "status: .\napp: x = 1 guide: # Guide\n"
FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
DEEP = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\nopen('leaf', 'w')"
SOCKET = "import socket; socket.socket(socket.AF_UNIX).bind('deps/socket')"
DAEMON = "setsid sh -c 'trap \"\" TERM HUP; while :; do echo up > ~/up; sleep 0.01; done'"

# Setups, and how their error begins.
FAILING = {
    "fork-bomb": (f'exec python3 -c "{FORK_BOMB}"', "did not finish within 2 seconds"),
    "output": ("yes 'without end'", "did not finish within 2 seconds"),
    "stubborn": ("trap '' TERM INT HUP; while :; do sleep 600; done", "did not finish within 2 s"),
    "disk": ("head -c 100M /dev/zero > ~/big; sleep 600", "used more than 32 MiB"),
    "workspace": ("mkdir deps; head -c 100M /dev/zero > deps/x; sleep 600", "used more than 32 M"),
    "dies": ("echo these are my last words; kill -9 -1; kill -9 $$", "failed with exit code 137"),
}
LINKS = """
mkdir deps; ln -s /etc deps/etc; ln -s ../../../../.. deps/up; ln -s . deps/loop
rm -r docs; ln -s / docs; ln -s / linked.log; ln -s / ~/root; rm app.py
ln -s /etc/passwd app.py; echo 'readlink deps/up linked.log' > deps/agent
"""
IGNORE_RULES = """
echo '*' > .gitignore; touch junk; mkdir -p new/deep; echo '*.o' > new/.gitignore
touch new/x.o; printf '*\\n!.gitignore\\n' > new/deep/.gitignore; touch new/deep/y.o
mkdir own; echo '*' > own/.gitignore; echo 'ls; ls -A own' > ~/.agent
"""
GIT_DIRECTORY = """
rm -rf .git; mkdir .git deps; echo '[core]' > .git/config
echo ' fsmonitor = touch /workspace/ran' >> .git/config; cp -r .git deps/.git
touch .git/ignored.log; echo 'ls -d ran .git/ignored.log 2>/dev/null; echo end' > ~/.agent
"""
MODES = """
mkdir -p deps/closed docs/closed ~/closed; touch deps/closed/x docs/a.log docs/closed/x
chmod 000 deps/closed/x deps/closed docs/closed ~/closed; chmod 500 docs; chmod 000 . || true
"""
SPECIAL_FILES = f"""
mkdir deps; mkfifo deps/fifo ~/fifo x.log; mknod deps/whiteout c 0 0
python3 -c "{SOCKET}"
"""
NAMES = """
mkdir deps; touch "deps/$(printf 'a\\377\\nb')" "./$(printf -- '-rf\\n\\377').log"
touch ~/$(printf '\\377'); echo 'ls deps | wc -l' > deps/agent
"""
# Setups, and what the agent prints about what they left.
HARMLESS = {
    "daemon": (f"{DAEMON} & until test -e ~/up; do :; done", ""),
    "many-files": (
        "mkdir deps; cd deps; seq 5000 | xargs touch; echo 'ls deps | wc -l' > agent",
        "5001\n",
    ),
    "links": (LINKS, "../../../../..\n/\n"),
    "sparse": (
        "mkdir deps; truncate -s 64M deps/sparse; echo 'stat -c %s deps/sparse' > ~/.agent",
        "67108864\n",
    ),
    "ignore-rules": (IGNORE_RULES, "app.py\ndocs\nown\n.gitignore\n"),
    "git-directory": (GIT_DIRECTORY, "end\n"),
    "modes": (MODES, ""),
    "special-files": (SPECIAL_FILES, ""),
    "names": (NAMES, "3\n"),
    "nothing": ("rm -rf /workspace/* /workspace/.[!.]* ~/* ~; rmdir /workspace; cd /; true", ""),
    "depth": (f'mkdir deps; cd deps; python3 -c "{DEEP}"', ""),
}
# Setups whose files cannot be kept, and why.
REFUSED = {
    "endless-line": (
        "truncate -s 3G ~/sparse",
        "The environment is not kept: a file, perhaps a sparse one, has a line that is too long",
    ),
}


class HostileSetups:
    """One branch of one repository for each setup, on a service of its own."""

    def __init__(self, environments: EnvironmentService, traces: Traces) -> None:
        self.environments = environments
        self._traces = traces

    def connect(self, setups: dict[str, tuple[str, str]], mark: str) -> None:
        variables = f'[environment.variables]\nHOSTILE_MARK = "{mark}"\n'
        branches = {
            name: {
                ".agentjobs.toml": f'[environment]\nsetup = """{_escape(script)}"""\n{variables}'
            }
            for name, (script, _) in {**setups, "ordinary": ("mkdir deps", "")}.items()
        }
        self.environments.connect("acme/shop", FILES, branches)
        self.environments.set_secret("TOKEN", secrets.token_hex(16), "acme/shop")
        self.environments.trust("acme/shop", *branches)

    def check_unharmed(self) -> None:
        environments = self.environments
        assert environments.unfinished() == []
        assert self._traces.all() == []
        states = {build["state"] for build in environments.builds("acme/shop")}
        assert states <= {"ready", "failed"}
        health = environments.api.http.get(f"{environments.service.root_url}/healthz")
        assert health.status_code == 200
        assert "Traceback" not in environments.service.log()

    def check_ordinary_job(self) -> None:
        _, log = self.environments.complete("acme/shop", "looker", "ordinary")
        assert AS_COMMITTED in log


@contextmanager
def disk_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        yield directory
    finally:
        remove(directory)


@contextmanager
def hostile_setups(
    sandbox: AttackedSandbox, setups: dict[str, tuple[str, str]], **settings: str
) -> Iterator[HostileSetups]:
    mark, uids = secrets.token_hex(8), sandbox.new_uids()
    # On a disk: where workspaces live in memory, their files count as memory of the setup.
    with disk_directory() as directory:
        outside = directory / "outside"
        outside.mkdir()
        with environment_service(
            directory,
            AGENTS,
            TMPDIR=str(outside),
            AGENTJOBS_SANDBOX_UID_BASE=str(uids.start),
            AGENTJOBS_SLOTS="1",
            **sandbox.variables,
            **settings,
        ) as environments:
            process = environments.service.process
            assert process is not None
            traces = Traces(
                service_pid=process.pid,
                data_dir=environments.service.data_dir,
                outside=outside,
                mark=f"HOSTILE_MARK={mark}".encode(),
                uids=uids,
                known=frozenset(
                    {*(Path(name).parts[0] for name in FILES), ".git", ".agentjobs.toml"}
                ),
                frame=sandbox.frame,
            )
            hostile = HostileSetups(environments, traces)
            hostile.connect(setups, mark)
            yield hostile
            hostile.check_ordinary_job()


@pytest.fixture(scope="module")
def tight(attacked_sandbox: AttackedSandbox) -> Iterator[HostileSetups]:
    with hostile_setups(
        attacked_sandbox,
        FAILING,
        AGENTJOBS_SETUP_SECONDS="2",
        AGENTJOBS_LIMIT_PROCESSES="100",
        AGENTJOBS_LIMIT_WORKSPACE_MIB="32",
    ) as hostile:
        yield hostile


@pytest.fixture(scope="module")
def roomy(attacked_sandbox: AttackedSandbox) -> Iterator[HostileSetups]:
    with hostile_setups(attacked_sandbox, {**HARMLESS, **REFUSED}) as hostile:
        yield hostile


@pytest.mark.parametrize("name", FAILING)
def test_a_setup_that_never_ends_or_uses_too_much_fails_the_job(
    tight: HostileSetups, name: str
) -> None:
    message = tight.environments.environment_error("acme/shop", "looker", name)
    assert message.startswith(f"The setup {FAILING[name][1]}")
    (build,) = (each for each in tight.environments.builds("acme/shop") if each["branch"] == name)
    assert len(tight.environments.build_log(build)) <= 256 * 1024
    tight.check_unharmed()


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_hostile_setup_leaves_does_not_harm_the_agent(
    roomy: HostileSetups, name: str
) -> None:
    for _ in range(2):
        _, log = roomy.environments.complete("acme/shop", "looker", name)
        assert AS_COMMITTED + HARMLESS[name][1] in log, log
        assert roomy.environments.changed_files(log) == ["edited.txt"]
    roomy.check_unharmed()


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_cannot_be_kept_fail_the_job(roomy: HostileSetups, name: str) -> None:
    message = roomy.environments.environment_error("acme/shop", "looker", name)
    assert message.startswith(REFUSED[name][1])
    roomy.check_unharmed()


def _escape(script: str) -> str:
    return script.replace("\\", "\\\\").replace('"', '\\"')
