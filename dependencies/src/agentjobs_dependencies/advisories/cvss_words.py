"""CVSS vectors in words: which attack they describe."""

from collections.abc import Mapping

_NONE_LOW_HIGH = {"N": "none", "L": "low", "H": "high"}
_VECTORS = {"N": "network", "A": "adjacent network", "L": "local", "P": "physical"}
_LOW_HIGH = {"L": "low", "H": "high"}
_PARTS = {"C": "Confidentiality", "I": "Integrity", "A": "Availability"}

_Metrics = Mapping[str, tuple[str, Mapping[str, str]]]

_V2: _Metrics = {
    "AV": ("Attack vector", _VECTORS),
    "AC": ("Attack complexity", {"L": "low", "M": "medium", "H": "high"}),
    "Au": ("Authentication", {"N": "none", "S": "single", "M": "multiple"}),
    **{
        key: (label, {"N": "none", "P": "partial", "C": "complete"})
        for key, label in _PARTS.items()
    },
}
_V3: _Metrics = {
    "AV": ("Attack vector", _VECTORS),
    "AC": ("Attack complexity", _LOW_HIGH),
    "PR": ("Privileges required", _NONE_LOW_HIGH),
    "UI": ("User interaction", {"N": "none", "R": "required"}),
    "S": ("Scope", {"U": "unchanged", "C": "changed"}),
    **{key: (label, _NONE_LOW_HIGH) for key, label in _PARTS.items()},
}
_V4: _Metrics = {
    "AV": ("Attack vector", _VECTORS),
    "AC": ("Attack complexity", _LOW_HIGH),
    "AT": ("Attack requirements", {"N": "none", "P": "present"}),
    "PR": ("Privileges required", _NONE_LOW_HIGH),
    "UI": ("User interaction", {"N": "none", "P": "passive", "A": "active"}),
    **{f"V{key}": (label, _NONE_LOW_HIGH) for key, label in _PARTS.items()},
    **{f"S{key}": (f"{label} of other systems", _NONE_LOW_HIGH) for key, label in _PARTS.items()},
}


def describe_vector(vector: str) -> list[tuple[str, str]]:
    """Each base metric and its value, such as ("Attack vector", "network")."""
    version, *_ = vector.split("/", 1)
    known = {"CVSS:4.0": _V4, "CVSS:3.0": _V3, "CVSS:3.1": _V3}.get(version, _V2)
    given = dict(part.partition(":")[::2] for part in vector.split("/"))
    return [
        (label, words[given[key]])
        for key, (label, words) in known.items()
        if given.get(key) in words
    ]
