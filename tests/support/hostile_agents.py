"""Settings that declare agents which run the code in their job."""

from pathlib import Path

LOG_BYTES = 256 * 1024
# Runs inside the sandbox. Its code comes with the job, so that each test is in one place.
ACTOR = '''
import ctypes, errno, json, os, resource, signal, socket, stat, subprocess, sys, time
from pathlib import Path

with open(os.environ["AGENTJOBS_JOB"]) as file:
    given = json.load(file)["config_override"]


def probe(name, action):
    """Print one line for an action that must fail."""
    try:
        found = action()
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        print(f"{name}: refused, {errno.errorcode.get(number, error)}", flush=True)
    else:
        print(f"{name}: REACHED {found!r}"[:300], flush=True)


def call(function, *arguments):
    """Call a function of the C library and raise its error."""
    libc = ctypes.CDLL(None, use_errno=True)
    answer = getattr(libc, function)(*arguments)
    if answer == -1:
        raise OSError(ctypes.get_errno(), function)
    return answer


def change():
    Path("edited.txt").write_text("changed")


# The defaults, as for a shell; Python ignores both signals.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
if "shell" in given:
    os.execvp("sh", ["sh", "-c", given["shell"]])
exec(given["python"])
'''
SETTINGS = """
slots = 2
sandbox_uid_base = {uid_base}
max_job_log_bytes = {log_bytes}

[[agents]]
id = "ordinary"
name = "Ordinary"
command = ["sh", "-c", "test -z \\"$(git status --porcelain)\\" && echo changed > edited.txt"]
"""
AGENT = """
[[agents]]
id = "{agent_id}"
name = "Hostile"
command = ["python3", "{actor}"]
timeout_seconds = 300
environment = {{ HOSTILE_MARK = "{mark}" }}
{options}
"""
AGENTS = {
    "hostile": "limits = { file_mib = 20480 }",
    "tight": "limits = { memory_mib = 64, file_mib = 8, workspace_mib = 32, scratch_mib = 8 }",
    "crowded": "limits = { processes = 40 }",
    "short-of-cpu": "limits = { cpu_seconds = 1 }",
    "online": 'network = ["169.254.169.254:81", "*.example.com"]',
    "with-model": 'model_api = "openai"\nmodel_url = "http://127.0.0.1:9"\nmodel = "gpt-4o-mini"',
}


def settings(actor: Path, mark: str, uid_base: int) -> str:
    agents = (
        AGENT.format(agent_id=agent_id, actor=actor, mark=mark, options=options)
        for agent_id, options in AGENTS.items()
    )
    return SETTINGS.format(uid_base=uid_base, log_bytes=LOG_BYTES) + "".join(agents)
