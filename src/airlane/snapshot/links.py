"""Which symbolic links lead out of the folder that is frozen."""

from __future__ import annotations

from collections.abc import Mapping

_MAX_HOPS = 40  # as the kernel


def escaping_links(links: Mapping[bytes, bytes]) -> list[bytes]:
    """The links, of all those in a tree (path to target), that lead outside it; a loop or a dangling link does not."""
    return sorted(path for path in links if _escapes(path, links))


def _escapes(path: bytes, links: Mapping[bytes, bytes]) -> bool:
    """Walk the target part by part as the kernel would, through the other links: `..` means the real parent."""
    place = path.split(b"/")[:-1]
    target = links[path]
    hops = 0
    pending = target.split(b"/")[::-1]
    if target.startswith(b"/"):
        return True
    while pending:
        part = pending.pop()
        if part in (b"", b"."):
            continue
        if part == b"..":
            if not place:
                return True
            place.pop()
            continue
        place.append(part)
        onward = links.get(b"/".join(place))
        if onward is None:
            continue
        hops += 1
        if onward.startswith(b"/") or hops > _MAX_HOPS:
            return onward.startswith(b"/")
        place.pop()
        pending.extend(onward.split(b"/")[::-1])
    return False
