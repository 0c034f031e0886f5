"""Each answer of a head, read: as Ray gave it, and with what Ray leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from airlane.top.reading import actors, detail, groups, jobs, load, logical, nodes, resources, summary, train
from airlane.top.values import Actor, ActorClass, Bundle, Demand, GpuProcess, Load, Measures, Node, Use

from .conftest import DEAD_NODE, HEAD_NODE, MADE_UP_GPUS, WORKER_NODE, answer, body, encoded

GB = 1 << 30


def recorded_nodes() -> tuple[Node, ...]:
    found, cut = nodes.read_nodes(body("nodes"))
    assert cut == 0
    return nodes.joined(found, summary.read_summary(body("summary")).nodes, lambda _: False)


def by_id(node_id: str) -> Node:
    return next(node for node in recorded_nodes() if node.id == node_id)


def rows_of(content: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content["data"]["result"]["result"]
    return found


# Nodes


def test_every_node_has_its_name_state_and_what_it_offers() -> None:
    assert sorted((node.name, node.state, node.head) for node in recorded_nodes()) == [
        ("lab-0", "ALIVE", True),
        ("lab-1", "ALIVE", False),
        ("lab-2", "ALIVE", False),
        ("lab-3", "DEAD", False),
    ]
    head = by_id(HEAD_NODE)
    assert head.resources == {"CPU": 2.0, "GPU": 2.0, "memory": 22855385088.0, "object_store_memory": 104857600.0}
    assert (head.address, head.hostname, head.labels, head.started_at) == ("127.0.0.2", "host-a", {}, 1796096854.078)


def test_a_dead_node_says_why_and_since_when() -> None:
    dead = by_id(DEAD_NODE)
    assert dead.why == "Unexpected termination: health check failed due to missing too many heartbeats"
    assert (dead.alive, dead.ended_at) == (False, 1796096918.736)


def test_measures_are_those_of_the_agent() -> None:
    measures = by_id(HEAD_NODE).measures
    assert (measures.at, measures.cpu, measures.cores, measures.load) == (1796096945.059068, 99.6, 2, 3.8759765625)
    assert (measures.memory_used, measures.memory_total) == (4004315136, 25275990016)
    assert (measures.store_used, measures.store_total) == (0, 104857600)
    assert (measures.disk_used, measures.disk_total) == (27679076352, 270553174016)
    assert (measures.disk_read, measures.disk_write) == (1744343.3740200803, 5497151.831198358)
    assert (measures.sent, measures.received) == (7092.350175790671, 3281037.0284785666)
    assert measures.gpus == ()


def test_a_gpu_has_bytes_and_watts_and_its_processes() -> None:
    busy, idle = summary.read_gpus(MADE_UP_GPUS)
    assert (busy.memory_used, busy.memory_total, busy.power_w) == (71680 << 20, 81559 << 20, 612.5)
    assert (busy.utilization, busy.temperature_c) == (97.0, 71.0)
    assert busy.processes == (GpuProcess(4242, 70000 << 20, 96.0),)
    assert (idle.utilization, idle.power_w, idle.temperature_c, idle.processes) == (None, None, None, ())


def test_processes_of_a_gpu_may_be_told_by_their_pid() -> None:
    (gpu,) = summary.read_gpus([{"processesPids": {"7": {"pid": 7, "gpuMemoryUsage": 1, "gpuUtilization": None}}}])
    assert gpu.processes == (GpuProcess(7, 1 << 20, None),)


def test_a_node_of_which_nothing_is_measured_has_no_measures() -> None:
    assert (
        summary.read_measures({"raylet": {"objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 0}}) == Measures()
    )


def test_what_the_head_did_not_tell_is_counted() -> None:
    content = answer("nodes")
    content["data"]["result"] |= {"total": 12_000, "num_after_truncation": 10_000, "num_filtered": 10_000}
    rows_of(content).pop()
    assert nodes.read_nodes(encoded(content))[1] == 2_000 + 10_000 - 3


def test_a_refusal_is_told_in_rays_words() -> None:
    with pytest.raises(ValueError, match="GCS is down"):
        nodes.read_nodes(encoded({"result": False, "msg": "GCS is down", "data": {"result": None}}))


def test_measures_that_stand_still_for_ten_seconds_are_stale_by_our_own_clock() -> None:
    now = [100.0]
    pulses = nodes.Pulses(lambda: now[0])

    def told(at: float) -> dict[str, summary.Told]:
        return {"hangs": summary.Told("", Measures(5.0)), "lives": summary.Told("", Measures(at))}

    for later, hangs in ((0.0, False), (9.9, False), (10.0, True), (60.0, True)):
        now[0] = 100.0 + later
        pulses.see(told(later))
        assert (pulses.still("hangs"), pulses.still("lives"), pulses.still("unknown")) == (hangs, False, False)
    pulses.see({"hangs": summary.Told("", Measures(6.0))})
    assert not pulses.still("hangs")


def test_measures_that_nobody_asked_for_are_not_stale() -> None:
    now = [100.0]
    pulses = nodes.Pulses(lambda: now[0])
    pulses.see({"n": summary.Told("", Measures(5.0))})
    now[0] = 200.0
    assert not pulses.still("n")


def test_a_dead_node_is_not_stale() -> None:
    dead, alive = Node("d", state="DEAD"), Node("a", state="ALIVE")
    told = {name: summary.Told("h", Measures(1.0)) for name in "da"}
    assert [node.stale for node in nodes.joined((dead, alive), told, lambda _: True)] == [False, True]


# Load


def test_load_is_what_the_scheduler_counts_without_what_ray_makes_up() -> None:
    found = load.read_load(body("cluster_status"))
    assert [(use.resource, round(use.used, 3), use.total) for use in found.use] == [
        ("CPU", 1.3, 6.0),
        ("GPU", 0.3, 6.0),
        ("memory", 0.0, 68213276672.0),
        ("object_store_memory", 0.0, 314572800.0),
    ]
    assert found.demands == (Demand(1, {"CPU": 50.0}), Demand(1, {"CPU": 64.0}, group=True))


def test_resources_have_the_names_that_their_users_gave_them() -> None:
    report = {"usage": {"specialHardware": [1, 2], "myTpu": [0, 1], "licence": [0, 3]}}
    content = encoded({"data": {"clusterStatus": {"loadMetricsReport": report}}})
    named = load.read_load(content, ("special_hardware", "my_TPU"))
    assert [use.resource for use in named.use] == ["licence", "my_TPU", "special_hardware"]
    assert load.camel("special_hardware") == "specialHardware"


def test_what_is_in_use_is_known_from_the_nodes_too() -> None:
    uses = summary.read_summary(body("summary")).use
    assert [(use.resource, round(use.used, 1)) for use in uses][:2] == [("CPU", 1.3), ("GPU", 0.3)]
    assert uses[0].total == 6.0
    odd = {"a": "1.0/2.0 CPU\n1.5GiB/4.0GiB memory\n?", "b": None, "c": "1..0/2 CPU\n1.0/1.0 node:10.0.0.1"}
    assert logical.read_logical(odd) == (Use("CPU", 1.0, 4.0), Use("memory", 1.5 * GB, 4.0 * GB))


def test_before_the_first_report_there_is_no_load_and_no_trouble() -> None:
    assert load.read_load(b'{"result": true, "data": {"clusterStatus": null}}') == Load()


def test_what_waits_out_of_a_placement_group_is_told_as_it_was_written() -> None:
    group = "d5bf43a842f90428f562746efb4002000000"
    shape = {f"GPU_group_0_{group}": 1.0, f"GPU_group_{group}": 1.0, f"bundle_group_0_{group}": 0.001}
    assert resources.asked(shape) == {"GPU": 1.0}


# Jobs


def test_a_running_job_is_told_whole() -> None:
    (job,) = jobs.read_jobs(body("jobs"))
    assert (job.id, job.driver_id, job.state, job.entrypoint) == (
        "raysubmit_demo",
        "02000000",
        "RUNNING",
        "python work.py",
    )
    assert (job.pid, job.node_id, job.submitted, job.over) == (18269, HEAD_NODE, True, False)
    assert (job.started_at, job.ended_at) == (1796096872.726, None)


def test_jobs_of_every_state_are_there_the_newest_first() -> None:
    told = [
        {"submission_id": "old", "status": "FAILED", "start_time": 1000, "end_time": 2000, "message": "exit code 1"},
        {"submission_id": "waits", "status": "PENDING", "job_id": None, "start_time": None, "metadata": None},
        {"job_id": "03000000", "status": "SUCCEEDED", "start_time": 3000, "end_time": 0, "type": "DRIVER"},
    ]
    found = jobs.read_jobs(encoded(told))
    assert [(job.id, job.state, job.submitted, job.over) for job in found] == [
        ("waits", "PENDING", True, False),
        ("03000000", "SUCCEEDED", False, True),
        ("old", "FAILED", True, True),
    ]
    assert (found[2].message, found[2].ended_at, found[1].ended_at) == ("exit code 1", 2.0, None)


# Actors


def living() -> tuple[Actor, ...]:
    alive, _ = actors.read_actors(body("actors_alive"))
    pending, _ = actors.read_actors(body("actors_pending"))
    return (*alive, *pending)


def test_classes_are_counted_by_state() -> None:
    classes, uncounted = actors.read_classes(body("actor_classes"))
    assert (actors.counted(classes, living(), all_living=True), uncounted) == (
        (
            ActorClass("Worker", {"DEAD": 12, "ALIVE": 3}),
            ActorClass("Greedy", {"PENDING_CREATION": 1}),
            ActorClass("JobSupervisor", {"ALIVE": 1}),
        ),
        0,
    )


def test_the_living_are_counted_although_the_summary_has_not_seen_all_actors() -> None:
    classes = {"Worker": {"DEAD": 10_000}}
    (worker,) = actors.counted(classes, [Actor("a", "Worker", state="ALIVE")], all_living=True)
    assert worker.states == {"DEAD": 10_000, "ALIVE": 1}


def test_with_more_living_actors_than_ray_tells_the_summary_counts() -> None:
    (worker,) = actors.counted({"Worker": {"ALIVE": 9}}, [Actor("a", "Worker", state="ALIVE")], all_living=False)
    assert worker.states == {"ALIVE": 9}


def test_a_pending_actor_says_what_no_node_has() -> None:
    told = actors.explained(living(), recorded_nodes(), load.read_load(body("cluster_status")))
    waiting = [actor for actor in told if actor.state == "PENDING_CREATION"]
    assert [(actor.name, actor.node_id, actor.why) for actor in waiting] == [
        ("greedy", None, "needs 50 CPUs: no node has more than 2")
    ]


NODES = (Node("a", state="ALIVE", resources={"CPU": 8.0, "GPU": 4.0}), Node("b", state="DEAD", resources={"TPU": 4.0}))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"TPU": 1.0}, "needs 1 TPU: no node has any"),
        ({"memory": 4.0 * GB}, "needs 4 GiB of memory: no node has any"),
        ({"GPU": 2.0, "CPU": 1.0}, "waits for 2 GPUs: 0 of 4 free"),
        ({"CPU": 1.0}, "is being started"),
        ({}, "is being started"),
    ],
)
def test_an_actor_that_waits_says_for_what(asked: dict[str, float], why: str) -> None:
    actor = Actor("x", state="PENDING_CREATION", resources=asked, why="is being started")
    used = Load((Use("CPU", 1.0, 8.0), Use("GPU", 4.0, 4.0)))
    assert actors.explained([actor], NODES, used)[0].why == why


def test_what_no_node_has_together_is_said_so() -> None:
    wanted = {"CPU": 8.0, "GPU": 8.0}
    there = [{"CPU": 8.0}, {"CPU": 1.0, "GPU": 8.0}]
    assert actors.shortage(wanted, there, {}) == "needs 8 CPUs and 8 GPUs on one node: no node has all of it"


def test_an_actor_whose_arguments_are_not_there_says_so() -> None:
    content = answer("actors_pending")
    rows_of(content)[0]["state"] = "DEPENDENCIES_UNREADY"
    ((actor,), _) = actors.read_actors(encoded(content))
    told = actors.explained([actor], NODES, Load())
    assert told[0].why == "waits for what it is given: other tasks have to end first"


def test_an_actor_that_wants_a_labelled_node_says_so() -> None:
    content = answer("actors_pending")
    rows_of(content)[0] |= {"label_selector": {"zone": "in(a,b)"}, "required_resources": {}}
    ((actor,), _) = actors.read_actors(encoded(content))
    assert actor.why == "waits for a node with zone in(a,b)"


def test_restarts_come_as_text() -> None:
    content = answer("actors_alive")
    rows_of(content)[0]["num_restarts"] = "3"
    assert actors.read_actors(encoded(content))[0][0].restarts == 3


# Placement groups


def test_a_placement_group_has_its_bundles_where_they_are() -> None:
    ((waits, placed), cut) = groups.read_groups(body("groups"))
    assert (placed.name, placed.state, placed.why, cut) == ("my-pg", "CREATED", None, 0)
    assert placed.bundles == (Bundle(0, {"CPU": 0.5}, WORKER_NODE), Bundle(1, {"CPU": 0.5}, HEAD_NODE))
    assert (waits.state, waits.why, waits.bundles[0].node_id) == ("PENDING", "asks for more than there is", None)
    assert waits.asked_at == pytest.approx(1796096878.5989397)


@pytest.mark.parametrize(
    ("state", "why"),
    [("NO_RESOURCES", "waits for resources that others use"), ("QUEUED", "waits for its turn"), ("NEW_ONE", "new one")],
)
def test_a_placement_group_says_what_it_waits_for(state: str, why: str) -> None:
    content = answer("groups")
    rows_of(content)[0]["stats"]["scheduling_state"] = state
    assert groups.read_groups(encoded(content))[0][0].why == why


# Train, and one node


def test_a_train_run_counts_the_workers_of_its_last_attempt() -> None:
    made_up: dict[str, Any] = {
        "id": "r1",
        "name": "träin",
        "status": "RUNNING",
        "status_detail": None,
        "job_id": "02000000",
        "start_time_ns": 1796096878598939649,
        "end_time_ns": None,
        "attempts": [{"workers": [{}]}, {"workers": [{}, {}]}],
    }
    (run,) = train.read_train(encoded({"train_runs": [made_up]}))
    assert (run.name, run.state, run.workers, run.ended_at) == ("träin", "RUNNING", 2, None)
    assert run.started_at == pytest.approx(1796096878.5989397)


def test_a_node_tells_its_processes_and_its_actors() -> None:
    found = detail.read_detail(body("node"), WORKER_NODE)
    assert [(one.pid, one.what, one.memory, one.gpu_memory) for one in found.processes] == [
        (17582, "ray::DashboardAgent", 136417280, 0),
        (17584, "ray::RuntimeEnvAgent", 91955200, 0),
    ]
    assert {(one.class_name, one.state, one.pid) for one in found.actors} == {
        ("Worker", "DEAD", 18493),
        ("Worker", "DEAD", 18739),
        ("Worker", "DEAD", 18781),
    }
    assert found.actors[0].why == "The actor is dead because it was killed by `ray.kill`."


def test_a_worker_of_an_actor_names_it() -> None:
    content = answer("node")
    worker = content["data"]["detail"]["workers"][0]
    worker |= {"jobId": "02000000", "gpuMemoryUsage": 512, "cmdline": ["ray::Worker.ping", "", ""]}
    worker["coreWorkerStats"] = [{"actorId": "8fd0d1d215fff825fde04d9002000000"}]
    content["data"]["detail"]["agent"] = None
    one = next(one for one in detail.read_detail(encoded(content), WORKER_NODE).processes if one.pid == worker["pid"])
    assert (one.what, one.job_id, one.actor_id, one.gpu_memory) == (
        "ray::Worker.ping",
        "02000000",
        "8fd0d1d215fff825fde04d9002000000",
        512 << 20,
    )
