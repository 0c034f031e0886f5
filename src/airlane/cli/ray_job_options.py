"""The options by which every `air ray job` command is told which cluster it is about."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from airlane.cli.command import Context
from airlane.cli.parser import Parser

if TYPE_CHECKING:
    from airlane.api.ray_target import JobTarget

CLUSTER_NOTES = (
    "Which cluster: --cluster is one from air ray up; --address is any dashboard's, with the token of "
    "RAY_AUTH_TOKEN_PATH; a profile of backend ray has both. Without any of these: RAY_API_SERVER_ADDRESS, "
    "RAY_ADDRESS, or the only cluster from air ray up."
)


def takes_cluster(parser: Parser) -> None:
    parser.add_argument("--cluster", metavar="CLUSTER", help="one from air ray up: its name or run id")
    parser.add_argument("--address", metavar="URL", help="a dashboard: http://HEAD:8265")


def job_target(values: Namespace, context: Context) -> JobTarget:
    from airlane.api.ray_target import JobTarget

    return JobTarget(address=values.address, cluster=values.cluster, profile=context.profile)
