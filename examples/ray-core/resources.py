"""What a call or an actor asks for: whole CPUs, parts of one, and resources of your own naming.

Ray counts, and enforces nothing: half a CPU is a seat, not a limit. The resource "licence" is made up; each node of a
cluster has one after tour.yaml, or

    RAY_OVERRIDE_RESOURCES='{"licence": 1}' air ray up --nodes 3 --cpus-per-node 2
"""

from __future__ import annotations

import ray


@ray.remote
class Guest:
    """Holds what it asked for as long as it lives."""

    def node(self) -> str:
        return ray.get_runtime_context().get_node_id()


def fill(count: int, **needs: object) -> str:
    """Start so many guests with the same needs, and one more, which finds nothing left."""
    guests = [Guest.options(**needs).remote() for _ in range(count)]
    nodes = ray.get([guest.node.remote() for guest in guests], timeout=60)

    one_more = Guest.options(**needs).remote()
    there, _ = ray.wait([one_more.node.remote()], timeout=2)
    for guest in (*guests, one_more):
        ray.kill(guest)
    return f"{count} fit, on {len(set(nodes))} of {len(ray.nodes())} nodes; one more {'fits' if there else 'waits'}"


def main() -> None:
    ray.init("auto", logging_level="error")
    if "licence" not in ray.cluster_resources():
        raise SystemExit(__doc__)

    # Each node has a resource with its address in the name: a little of it ties a guest to that node.
    here = {f"node:{ray.util.get_node_ip_address()}": 0.001}
    print("a CPU each, on this node      ", fill(2, num_cpus=1, resources=here))
    print("half a CPU each, on this node ", fill(4, num_cpus=0.5, resources=here))
    print("a licence each, anywhere      ", fill(3, num_cpus=0, resources={"licence": 1}))

    # More than any node has is not an error: such a node may still join, so the guest waits. Look before you do.
    huge = Guest.options(num_cpus=1000).remote()
    there, _ = ray.wait([huge.node.remote()], timeout=2)
    most = max(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
    print(f"1000 CPUs                      {'fits' if there else 'waits for ever'}: the largest node has {most:g}")


if __name__ == "__main__":
    main()
