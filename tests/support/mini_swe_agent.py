"""The installed mini-swe-agent, and the replies of a scripted model that drive it."""

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.upstream import Api
from tests.support.agent_programs import WRITE, declared
from tests.support.model_messages import ModelReply, Tokens, ToolCall
from tests.support.paths import PROJECT

_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def mini(api: Api = "openai") -> Agent:
    return declared(
        preset="mini-swe-agent",
        executable=str(PROJECT / ".venv-agents" / "bin" / "mini"),
        model_api=api,
        model="priced",
        environment={"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1"},
    )


def replies_that_write_and_submit() -> list[ModelReply]:
    return [
        ModelReply(
            text="Next:", tool_calls=[ToolCall("bash", {"command": command})], usage=Tokens(100, 20)
        )
        for command in (WRITE, _SUBMIT)
    ]
