"""What a node's agent is told to do: one JSON file, written by the supervisor before it starts the agent."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class ContainerOrder:
    """Run the command in a container of `image`: a registry's reference, or the absolute path of an archive.

    `runtime` is None for the first that the node has. `digests` are the names that an archive's image may have in an
    engine: that of its configuration, then those of its manifests; `stamp` is what the archive had when they were
    read. `folders` are what the run itself needs to see;
    `mounts` are the profile's, SOURCE:TARGET[:ro]. `arguments` are further options of the runtime. `credentials` is
    the name under which the secrets hold the registry's USER:PASSWORD.
    """

    image: str
    runtime: Optional[str] = None
    is_archive: bool = False
    digests: Tuple[str, ...] = field(default=())
    stamp: Optional[str] = None
    pull_always: bool = False
    folders: Tuple[str, ...] = field(default=())
    mounts: Tuple[str, ...] = field(default=())
    arguments: Tuple[str, ...] = field(default=())
    credentials: Optional[str] = None


@dataclass(frozen=True)
class Order:
    """Run `command_file` once with bash, watch it, leave nothing behind.

    `env` is added to the agent's own environment and to what the preset `network` sets; it wins over both.
    Each of `secrets_files` holds a JSON object NAME -> value, whose values are masked in the log; later ones win.
    `beat_interval_s` asks for a sign of life on stdout so often; after `silence_s` without a word on stdin everything
    is killed. `containment` is "auto", "pid_namespace" or "subreaper". Durations are seconds. `gpus` are the indexes or
    UUIDs of the accelerators to sample. `scratch_folders` are made (0700) before the command starts and removed, with
    what is in them, when it has ended.
    """

    run_id: str
    attempt: int
    node_rank: int
    command_file: str
    working_folder: str
    log_file: str
    record_file: str
    env: Dict[str, str]
    network: Optional[str] = None
    secrets_files: Tuple[str, ...] = field(default=())
    containment: str = "auto"
    stop_grace_s: float = 30.0
    orphan_grace_s: float = 3.0
    beat_interval_s: Optional[float] = None
    silence_s: Optional[float] = None
    metrics_file: Optional[str] = None
    metrics_interval_s: float = 10.0
    gpus: Tuple[str, ...] = field(default=())
    scratch_folders: Tuple[str, ...] = field(default=())
    container: Optional[ContainerOrder] = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Order:
        fields = json.loads(text)
        fields["secrets_files"] = tuple(fields["secrets_files"])
        fields["gpus"] = tuple(fields["gpus"])
        fields["scratch_folders"] = tuple(fields["scratch_folders"])
        if fields["container"] is not None:
            lists = ("digests", "folders", "mounts", "arguments")
            inside: Dict[str, Any] = dict(fields["container"])
            inside.update({name: tuple(inside[name]) for name in lists})
            fields["container"] = ContainerOrder(**inside)
        return Order(**fields)
