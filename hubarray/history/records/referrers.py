"""Referrers: notes beside a home's data that another name reads it, which keep the collector from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from hubarray.blobs.ref import new_id
from hubarray.errors import CorruptDataError, ObjectMissingError
from hubarray.history.records.json_fields import Fields, parse_json
from hubarray.storage.base import ObjectInfo, Store

_MAX_BYTES = 4096


def write_referrer(store: Store, home: str, referrer: str) -> None:
    """Leave a note beside a home's data that another name reads it."""
    body = {"hubarray": 1, "referrer": referrer, "time": datetime.now(UTC).isoformat()}
    store.put(f"{home}/referrers/{new_id()}.json", json.dumps(body).encode())


def notes(store: Store, home: str) -> Iterator[tuple[ObjectInfo, str | CorruptDataError]]:
    """Every note beside a home's data: the home that refers to it, or why the note cannot be read."""
    for info in store.list(f"{home}/referrers/"):
        try:
            yield info, _referrer(bytes(store.get(info.key, 0, _MAX_BYTES + 1)), store.where(info.key))
        except ObjectMissingError:
            continue
        except CorruptDataError as error:
            yield info, error


def referrers(store: Store, home: str) -> list[tuple[ObjectInfo, str]]:
    """Notes of the names that refer to a home; one that cannot be read protects everything.

    Raises
    ------
    CorruptDataError
    """
    referring = []
    for info, referrer in notes(store, home):
        if isinstance(referrer, CorruptDataError):
            raise CorruptDataError(
                f"{store.where(info.key)}: this referrer cannot be read, so it is unknown what it protects and nothing "
                "is collected; hub.repair the names that were copied from this one, then delete it "
                f"({referrer})"
            )
        referring.append((info, referrer))
    return referring


def _referrer(data: bytes, where: str) -> str:
    if len(data) > _MAX_BYTES:
        raise CorruptDataError(f"{where}: is longer than the {_MAX_BYTES} bytes that a referrer may have")
    return Fields(parse_json(data, where), where).home("referrer")
