"""The one place that wires settings, store, features, web and worker.

Starts them in order and stops them in order; knows no feature from the inside.
"""

from agentjobs.app.services import run_serve, run_up, run_worker

__all__ = ["run_serve", "run_up", "run_worker"]
