"""Three ways to a cluster: an environment variable, its address, and a client that needs no node of it.

eval "$(air ray env)"; python connect.py [ray://HOST:PORT]
"""

from __future__ import annotations

import os
import sys

import ray


@ray.remote
def where() -> str:
    """The node that this runs on."""
    return ray.util.get_node_ip_address()


def look(way: str) -> None:
    """Say what this connection leads to, and end it."""
    nodes = sum(node["Alive"] for node in ray.nodes())
    print(f"{way:<21} {nodes} nodes, {ray.cluster_resources()['CPU']:g} CPUs, ran on {ray.get(where.remote())}")
    ray.shutdown()


def main() -> None:
    address = os.environ["RAY_ADDRESS"]

    # RAY_ADDRESS says where. Without it a plain init() starts a small cluster of its own, without a word; "auto" would
    # rather fail. The token is found by RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH: `air ray env` prints all of them.
    ray.init("auto", logging_level="error")
    look("environment variable")

    # The same address, spelled out: that of the GCS. This program becomes a part of the cluster, its driver, and reads
    # the object store of its node: it must run on one.
    ray.init(address, logging_level="error")
    look("direct")

    # A client runs anywhere that reaches the client server's port. Everything goes through there: slower, and when the
    # connection is lost, so is what the client had. Long work is better submitted as a job.
    for client in sys.argv[1:]:
        ray.init(client, logging_level="error")
        look("client")


if __name__ == "__main__":
    main()
