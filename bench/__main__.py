"""`python -m bench [NAME…] [--json FILE]` runs benchmarks and shows or stores their figures."""

import argparse
from pathlib import Path
from typing import Any

from bench import (
    advisory_matching,
    api_throughput,
    checkout,
    command_line,
    dashboard_data,
    dashboard_pages,
    delivery_log,
    environment_start,
    flatness,
    fleet_scale,
    gateway_overhead,
    idle,
    image_unpack,
    index_speed,
    lock_files,
    neighbour,
    pod_cache,
    pod_files,
    pod_start,
    push_cost,
    queue_peers,
    service_relay,
    silent_agents,
    start_estimates,
    start_latency,
    takeover,
    webhook_isolation,
    webhook_latency,
    webhook_throughput,
)
from bench.report import machine, show, write_json

MEASURES = {
    "advisory_matching": (
        "Dependencies held against advisories",
        advisory_matching.measure,
    ),
    "api_throughput": ("Requests, against the bare framework", api_throughput.measure),
    "checkout": ("A tree of 27,000 files, against git clone --local", checkout.measure),
    "command_line": ("Short commands", command_line.measure),
    "dashboard_data": (
        "What the dashboard reads, with 100,000 jobs",
        dashboard_data.measure,
    ),
    "dashboard_pages": ("Pages of the dashboard, with 100,000 jobs", dashboard_pages.measure),
    "delivery_log": (
        "A log of a million deliveries, against one of ten thousand",
        delivery_log.measure,
    ),
    "environment_start": (
        "A start in an environment of 2 GB, against one without",
        environment_start.measure,
    ),
    "flatness": ("A million jobs, against a thousand", flatness.measure),
    "fleet_scale": ("50 workers over one PostgreSQL, idle and busy", fleet_scale.measure),
    "gateway_overhead": ("What the model gateway adds to a request", gateway_overhead.measure),
    "idle": ("An idle `up`, for a minute", idle.measure),
    "image_unpack": (
        "An image of 300 MB, against umoci and tar",
        image_unpack.measure,
    ),
    "index": ("The index of large repositories, against reading them", index_speed.measure),
    "lock_files": ("Lock files, from their bytes to dependencies", lock_files.measure),
    "neighbour": ("An ordinary tenant beside one that attacks, against alone", neighbour.measure),
    "pod_cache": ("A large layer from the cache volume, against sending it", pod_cache.measure),
    "pod_files": ("27,000 files into a pod and out of it, against kubectl cp", pod_files.measure),
    "pod_start": ("The first output of a pod, against bare pods", pod_start.measure),
    "queue_peers": ("The queue beside other queues on PostgreSQL", queue_peers.measure),
    "service_relay": (
        "A service beside the agent, against a process in its sandbox",
        service_relay.measure,
    ),
    "push_cost": ("A push, with few and with many branches", push_cost.measure),
    "silent_agents": ("A running agent that does nothing, of 50", silent_agents.measure),
    "start_estimates": (
        "Estimated starts, against the waits that follow",
        start_estimates.measure,
    ),
    "start_latency": ("From the accepted request to the agent's start", start_latency.measure),
    "takeover": ("From kill -9 of a worker to the agent's next start", takeover.measure),
    "webhook_isolation": (
        "An endpoint's webhooks beside one that hangs until the timeout",
        webhook_isolation.measure,
    ),
    "webhook_latency": (
        "From an event's commit to its receiver's first byte",
        webhook_latency.measure,
    ),
    "webhook_throughput": (
        "Webhooks sent and recorded, against bare POSTs",
        webhook_throughput.measure,
    ),
}
# Not part of all: it needs a real cluster.
NAMED_ONLY = {"pod_cache", "pod_files", "pod_start"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}")
    figures: dict[str, Any] = {"machine": machine()}
    show("Measured on", [figures["machine"]])
    for name in arguments.names or (name for name in MEASURES if name not in NAMED_ONLY):
        title, measure = MEASURES[name]
        figures[name] = measure()
        show(title, figures[name])
    if arguments.json:
        write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
