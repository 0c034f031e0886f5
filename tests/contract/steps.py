"""What supervisors do in the tests of the contract. They run where the backend runs them: nothing here needs pytest."""

from __future__ import annotations

import time

from contract.cases import PATIENCE_S, Inside, as_facts


def waits(inside: Inside) -> None:
    inside.await_word("go")


def does_nothing(inside: Inside) -> None:
    del inside


def holds_nodes(inside: Inside) -> None:
    allocation = inside.granted()
    inside.tell("places", [[p.node, p.host, p.address] for p in allocation.places()])
    inside.tell("port", allocation.free_port())
    inside.tell("still", allocation.waiting() is None)
    inside.await_word("go")
    allocation.release()


def tells_its_wait(inside: Inside) -> None:
    allocation = inside.backend.allocate(inside.record, inside.paths, 0)
    waiting = allocation.waiting()
    inside.tell("waiting", None if waiting is None else [waiting.detail, waiting.position])
    if waiting is not None:
        inside.await_word("go")
        inside.await_grant(allocation)
    allocation.release()


def leaves_the_queue(inside: Inside) -> None:
    allocation = inside.backend.allocate(inside.record, inside.paths, 0)
    inside.tell("waits", allocation.waiting() is not None)
    allocation.release()
    allocation.release()


def runs_to_the_end(inside: Inside) -> None:
    allocation = inside.granted()
    inside.start_all(allocation)
    inside.tell("first", as_facts(allocation.look()))
    begun = time.monotonic()
    while any(report.agent_alive for report in allocation.look()):
        allocation.wait(PATIENCE_S)
    inside.tell("took_s", time.monotonic() - begun)
    inside.tell("last", as_facts(allocation.look()))
    allocation.release()
    inside.tell("after", as_facts(allocation.look()))


def stops_the_last(inside: Inside) -> None:
    allocation = inside.granted()
    inside.start_all(allocation)
    last = len(allocation.places()) - 1
    inside.await_word("started")
    for _ in range(3):
        allocation.stop(last)
    while allocation.look()[last].agent_alive:
        allocation.wait(1.0)
    allocation.stop(last)
    inside.tell("reports", as_facts(allocation.look()))
    allocation.release()
    allocation.release()
    inside.tell("released", as_facts(allocation.look()))


def kills_all(inside: Inside) -> None:
    allocation = inside.granted()
    inside.start_all(allocation)
    inside.await_word("started")
    for _ in range(2):
        for place in allocation.places():
            allocation.kill(place.node)
            allocation.stop(place.node)
    while any(report.agent_alive for report in allocation.look()):
        allocation.wait(1.0)
    inside.tell("reports", as_facts(allocation.look()))
    inside.await_word("go")
    allocation.release()


def tries_twice(inside: Inside) -> None:
    for attempt in range(2):
        allocation = inside.granted(attempt)
        inside.start_all(allocation, attempt=attempt)
        while any(report.agent_alive for report in allocation.look()):
            allocation.wait(1.0)
        inside.tell(f"reports-{attempt}", as_facts(allocation.look()))
        allocation.release()


def never_ends(inside: Inside) -> None:
    allocation = inside.granted()
    inside.start_all(allocation)
    inside.await_word("never")
