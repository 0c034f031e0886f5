"""What the agents of the nodes measured: /nodes?view=summary.

Source: Ray 2.60, dashboard/modules/node and reporter/reporter_models.py. Memory is [total, available, percent, used] in
bytes, of a GPU in MB; speeds are [read, write, ...] and [sent, received] in bytes/s. The processes of a GPU are a list,
or null where the driver does not tell them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airlane.top.fields import dig, mapping, number, rows, text, whole
from airlane.top.reading.logical import read_logical
from airlane.top.reading.pieces import read_pieces, without_array
from airlane.top.values import Gpu, GpuProcess, Measures, Use

SUMMARY = "/nodes?view=summary&nocache=1"  # without it, an idle dashboard answers with what was a minute ago
MB = 1 << 20
_MOST_MB = 1 << 40
_PATH = ("data", "summary")


@dataclass(slots=True)
class Told:
    """What an agent tells of its node."""

    hostname: str
    measures: Measures


@dataclass(slots=True)
class Summary:
    """What the agents tell, by the ids of their nodes; and what the scheduler has given away on all of them."""

    nodes: dict[str, Told]
    use: tuple[Use, ...] = ()


def read_summary(body: bytes) -> Summary:
    """Raises ValueError: this is no such answer."""
    pieces = read_pieces(body, _PATH, _entry, _without_padding)
    if type(dig(pieces.around, *_PATH)) is not list:
        raise ValueError("it has no list of nodes")
    told = {node_id: one for node_id, one in pieces.made if node_id}
    return Summary(told, read_logical(dig(pieces.around, "data", "nodeLogicalResources")))


def _entry(entry: dict[str, Any]) -> tuple[str, Told]:
    return text(dig(entry, "raylet", "nodeId")), Told(text(entry.get("hostname")), read_measures(entry))


def _without_padding(piece: bytes) -> bytes:
    """Most of an entry is command lines, padded with a thousand empty words, and what workers told of themselves."""
    piece = without_array(piece, b'"cmdline": ["', b'"]')
    return without_array(piece, b'"coreWorkersStats": [{', b'}], "numWorkers"')


def read_measures(entry: dict[str, Any]) -> Measures:
    """What one node measured. What is missing is None."""
    memory, cores = _list(entry.get("mem"), 4), _list(entry.get("cpus"), 2)
    disk, speed = mapping(dig(entry, "disk", "/")), _list(entry.get("diskIoSpeed"), 2)
    network, raylet = _list(entry.get("networkSpeed"), 2), mapping(entry.get("raylet"))
    store_used, store_free = whole(raylet.get("objectStoreUsedMemory")), whole(raylet.get("objectStoreAvailableMemory"))
    if not store_used and not store_free:  # Ray's words for a node of which it knows nothing any more
        store_used = None
    load = _list(_list(entry.get("loadAvg"), 1)[0], 1)
    return Measures(
        at=number(entry.get("now")),
        cpu=number(entry.get("cpu")),
        cores=whole(cores[0]),
        load=number(load[0]),
        memory_used=whole(memory[3]),
        memory_total=whole(memory[0]),
        store_used=store_used,
        store_total=None if store_used is None or store_free is None else store_used + store_free,
        disk_used=whole(disk.get("used")),
        disk_total=whole(disk.get("total")),
        disk_read=number(speed[0]),
        disk_write=number(speed[1]),
        received=number(network[1]),
        sent=number(network[0]),
        gpus=read_gpus(entry.get("gpus")),
    )


def read_gpus(content: Any) -> tuple[Gpu, ...]:
    return tuple(_gpu(row, place) for place, row in enumerate(rows(content))) if content else ()


def _gpu(row: dict[str, Any], place: int) -> Gpu:
    get = row.get
    index, power, processes = whole(get("index")), number(get("powerMw")), get("processesPids")
    return Gpu(
        place if index is None else index,
        text(get("name")),
        text(get("uuid")),
        number(get("utilizationGpu")),
        megabytes(get("memoryUsed")),
        megabytes(get("memoryTotal")),
        number(get("temperatureC")),
        None if power is None else power / 1000,
        _processes(processes) if processes else (),
    )


def _processes(content: Any) -> tuple[GpuProcess, ...]:
    """Older versions tell them by their pid."""
    told = content.values() if type(content) is dict else content if type(content) is list else ()
    return tuple(
        GpuProcess(pid, megabytes(row.get("gpuMemoryUsage")), number(row.get("gpuUtilization")))
        for row in told
        if type(row) is dict and (pid := whole(row.get("pid"))) is not None
    )


def megabytes(content: Any) -> int | None:
    """Bytes, from what Ray tells in MB."""
    if type(content) is int and 0 <= content < _MOST_MB:
        return content * MB
    found = number(content)
    return None if found is None or not 0 <= found < _MOST_MB else int(found * MB)


def _list(content: Any, length: int) -> list[Any]:
    """A list of at least so many, with None for what is missing."""
    found = content if type(content) is list else []
    return [*found, *[None] * (length - len(found))]
