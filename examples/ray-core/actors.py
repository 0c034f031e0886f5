"""State that stays: an actor is a process of its own, and its calls run one after another."""

from __future__ import annotations

import asyncio
import time

import ray


@ray.remote
class Account:
    """One call at a time, in the order in which each caller made them: no locks."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.balance = 0

    def deposit(self, amount: int) -> int:
        balance = self.balance
        time.sleep(0.01)  # where threads would get in each other's way
        self.balance = balance + amount
        return self.balance

    def read(self) -> int:
        return self.balance


@ray.remote
def pay_in(account: ray.actor.ActorHandle, times: int) -> None:
    """A handle can be passed on: many callers, one actor."""
    ray.get([account.deposit.remote(1) for _ in range(times)])


@ray.remote
class Library:
    """An actor with coroutines serves many at once, in one thread."""

    async def fetch(self) -> None:
        await asyncio.sleep(0.5)


def main() -> None:
    ray.init("auto", logging_level="error")

    account = Account.remote("Ada")
    ray.get([pay_in.remote(account, 10) for _ in range(5)])
    print("5 callers paid in 10 times 1:", ray.get(account.read.remote()))

    # By its name, an actor is found from any program that gives the same namespace. It ends with its last handle, or
    # with the program; lifetime="detached" keeps it until somebody kills it.
    Account.options(name="savings", get_if_exists=True).remote("Ada")
    one = Account.options(name="savings", get_if_exists=True).remote("nobody")
    ray.get(one.deposit.remote(7))
    print("found by its name:", ray.get(ray.get_actor("savings").read.remote()))

    library = Library.remote()
    ray.get(library.fetch.remote())
    started = time.monotonic()
    ray.get([library.fetch.remote() for _ in range(100)])
    print(f"100 fetches of 0.5 s at once: {time.monotonic() - started:.1f} s")

    # An actor holds what it asked for as long as it lives, busy or not: give it back. kill() does not wait for the end.
    ray.kill(account)
    try:
        while True:
            ray.get(account.read.remote())
    except ray.exceptions.RayActorError:
        print("killed: its calls fail")


if __name__ == "__main__":
    main()
