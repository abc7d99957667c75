"""What NetworkPolicies mean for one pod, as rules of nftables for its network namespace."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

TABLE = "agentjobs_policies"
REMOVAL = f"table inet {TABLE}\ndelete table inet {TABLE}\n"
_DIRECTIONS = (
    ("Ingress", "input", "iif", "saddr", "from"),
    ("Egress", "output", "oif", "daddr", "to"),
)


class Directory:
    """The pods and namespaces that selectors of policies choose from."""

    def __init__(self, pods: Sequence[Object], namespaces: Sequence[Object]) -> None:
        self._pods = pods
        self._labels = {each["metadata"]["name"]: _labels(each) for each in namespaces}

    def addresses(self, peer: Object, namespace: str) -> list[str]:
        if "ipBlock" in peer:
            return [peer["ipBlock"]["cidr"]]
        chosen = {namespace}
        if "namespaceSelector" in peer:
            selector = peer["namespaceSelector"]
            chosen = {name for name, labels in self._labels.items() if matches(selector, labels)}
        return [
            pod["status"]["podIP"]
            for pod in self._pods
            if pod["metadata"]["namespace"] in chosen
            and matches(peer.get("podSelector", {}), _labels(pod))
            and pod["status"].get("podIP")
        ]


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return all(_is_true(each, labels) for each in selector.get("matchExpressions") or ())


def rules(
    pod: Object, policies: Iterable[Object], directory: Directory, node_addresses: Sequence[str]
) -> str:
    """A pod that no policy selects has none. A node always reaches its pods."""
    namespace = pod["metadata"]["namespace"]
    selecting = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == namespace
        and matches(policy["spec"].get("podSelector", {}), _labels(pod))
    ]
    chains = ""
    for kind, hook, interface, side, peers in _DIRECTIONS:
        specs = [spec for spec in selecting if kind in spec["policyTypes"]]
        if not specs:
            continue
        lines = [f'{interface} "lo" accept', "ct state established,related accept"]
        if kind == "Ingress":
            lines.append(f"ip saddr {{ {', '.join(node_addresses)} }} accept")
        for rule in (rule for spec in specs for rule in spec.get(kind.lower()) or ()):
            lines += _accepted(rule, peers, side, namespace, directory)
        body = "".join(f"    {line}\n" for line in lines)
        head = f"type filter hook {hook} priority 0; policy drop;"
        chains += f"  chain {hook} {{\n    {head}\n{body}  }}\n"
    return f"{REMOVAL}table inet {TABLE} {{\n{chains}}}\n"


def _accepted(
    rule: Object, peers: str, side: str, namespace: str, directory: Directory
) -> list[str]:
    ports = [_port(port) for port in rule.get("ports") or ()] or [""]
    if not rule.get(peers):
        return [f"{port}accept" for port in ports]
    addresses = [
        (address, peer.get("ipBlock", {}).get("except") or ())
        for peer in rule[peers]
        for address in directory.addresses(peer, namespace)
    ]
    return [
        f"ip {side} {address} {_excluded(side, excluded)}{port}accept"
        for address, excluded in addresses
        for port in ports
    ]


def _excluded(side: str, networks: Sequence[str]) -> str:
    return f"ip {side} != {{ {', '.join(networks)} }} " if networks else ""


def _port(port: Object) -> str:
    protocol = port.get("protocol", "TCP").lower()
    if "port" not in port:
        return f"meta l4proto {protocol} "
    if not isinstance(port["port"], int):
        raise NotImplementedError(f"ports with names: {port['port']}")
    end = f"-{port['endPort']}" if "endPort" in port else ""
    return f"{protocol} dport {port['port']}{end} "


def _is_true(expression: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values = expression.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


def _labels(each: Object) -> Mapping[str, str]:
    return each["metadata"].get("labels") or {}
