"""What each command does: arguments in, the public functions, a result out."""

from __future__ import annotations

import ast
import itertools
import json
import shutil
import sys
import time
import tokenize
import uuid
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

import hubarray as hub
from hubarray import config, names
from hubarray.cli.output import Output, confirmed, table_lines
from hubarray.errors import AlreadyExistsError, ConfigError, CorruptDataError, FormatVersionError
from hubarray.history import listing
from hubarray.interop.html import human_bytes
from hubarray.shown import shown_text, shown_url
from hubarray.storage.url import Root, resolve

DONE, NOT_DONE, PROBLEMS = 0, 1, 3
ASKED_BYTES = 1_000_000_000


def ls(arguments: Namespace, output: Output) -> int:
    """``hubarray ls``."""
    _require_root(arguments.root)
    owner, beginning = names.parse_prefix(arguments.prefix)
    found = listing.live_versions(resolve(arguments.root).store, owner, beginning)
    rows = [
        {"name": str(name), "state": "damaged" if problem else "", "problem": problem}
        for name, problem in found.items()
    ]
    if not arguments.long:
        output.value(rows, (f"{row['name']}  (damaged)" if row["problem"] else str(row["name"]) for row in rows))
        return DONE
    rows = [_described(row, arguments.root) for row in rows]
    output.value(rows, table_lines([{key: one for key, one in row.items() if key != "problem"} for row in rows]))
    return DONE


def _require_root(root: str | None) -> None:
    """Refuse a folder that is named as the root and does not exist: a slip, where an empty list would hide it."""
    if root is not None and (given := Root(root)).scheme == "file" and not Path(given.path).is_dir():
        raise ConfigError(f"--root {root}: there is no such folder")


def _described(row: dict[str, Any], root: str | None) -> dict[str, Any]:
    """A row of ``ls`` with what is found on opening the version."""
    about: dict[str, Any] = {"shape": "", "dtype": "", "commit": ""}
    if not row["problem"]:
        try:
            array = hub.load(row["name"], root=root)
            about = {"shape": array.shape, "dtype": str(array.dtype), "commit": array.commit}
            row = row | {"state": "frozen" if array.frozen else ""}
        except (CorruptDataError, FormatVersionError) as error:
            row = row | {"state": "damaged", "problem": str(error)}
    return {"name": row["name"], **about, "state": row["state"], "problem": row["problem"]}


def info(arguments: Namespace, output: Output) -> int:
    """``hubarray info``."""
    array = hub.load(arguments.name, root=arguments.root)
    record = array.state().record
    newest = next(iter(array.log()))
    facts = {
        "name": f"{array.name}:{array.version}",
        "commit": array.commit,
        "frozen": array.frozen,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "chunks": list(array.chunks),
        "codecs": [one["name"] for one in array.codec],
        "fill_value": np.asarray(array.fill_value).tolist(),
        "memory_bytes": array.nbytes,
        "stored_bytes": array.stored_bytes(),
        "attrs": dict(array.attrs),
        "tags": dict(record.tags),
        "time": str(newest.time),
        "author": newest.author,
        "root": array.root.url,
    }
    shown = dict(facts)
    shown |= {key: human_bytes(float(facts[key])) for key in ("memory_bytes", "stored_bytes")}
    output.facts(facts, shown)
    return DONE


def log(arguments: Namespace, output: Output) -> int:
    """``hubarray log``."""
    commits = itertools.islice(hub.log(arguments.name, root=arguments.root), arguments.number)
    if output.json:
        output.value([asdict(one) for one in commits], [])
        return DONE
    for one in commits:
        print(shown_text(f"{one.number:>6}  {one.time:%Y-%m-%d %H:%M:%S}  {one.author}  {one.message}"))
    return DONE


def diff(arguments: Namespace, output: Output) -> int:
    """``hubarray diff``; 3 if they differ."""
    found = hub.diff(arguments.a, arguments.b, elements=arguments.elements, root=arguments.root)
    regions = [[[part.start, part.stop] for part in region] for region in found.regions]
    lines = ["[" + ", ".join(f"{part.start}:{part.stop}" for part in region) + "]" for region in found.regions]
    facts: dict[str, Any] = {"regions": regions, "shapes": [list(shape) for shape in found.shapes]}
    if arguments.elements:
        facts["elements"] = found.elements
        lines.append(f"{found.elements:,} elements differ")
    output.value(facts, lines)
    return PROBLEMS if found else DONE


def copy(arguments: Namespace, output: Output) -> int:
    """``hubarray copy``."""
    array = hub.copy(arguments.source, arguments.target, root=arguments.root, message=arguments.message)
    return _made(array, output)


def freeze(arguments: Namespace, output: Output) -> int:
    """``hubarray freeze``."""
    if not confirmed(f"Freeze {arguments.name} for good?", yes=arguments.yes):
        output.value({"error": "NotConfirmed", "message": f"{arguments.name} was not frozen"}, [])
        return NOT_DONE
    hub.freeze(arguments.name, root=arguments.root, message=arguments.message)
    output.value({"frozen": arguments.name}, [f"{arguments.name} is frozen"])
    return DONE


def delete(arguments: Namespace, output: Output) -> int:
    """``hubarray delete``."""
    parsed = names.parse(names.split_root(arguments.name)[1])
    home = arguments.name if parsed.version_given else f"all versions of {arguments.name}"
    if not confirmed(f"Delete {home}?", yes=arguments.yes):
        output.value({"error": "NotConfirmed", "message": f"{home} was not deleted"}, [])
        return NOT_DONE
    hub.delete(arguments.name, root=arguments.root, message=arguments.message)
    output.value({"deleted": arguments.name}, [f"{arguments.name} is deleted"])
    return DONE


def tag(arguments: Namespace, output: Output) -> int:
    """``hubarray tag``."""
    if arguments.tag is None:
        output.facts(hub.tags(arguments.name, root=arguments.root))
        return DONE
    number = hub.tag(arguments.name, arguments.tag, root=arguments.root, message=arguments.message)
    output.value({"tag": arguments.tag, "commit": number}, [f"{arguments.tag} is commit {number}"])
    return DONE


def untag(arguments: Namespace, output: Output) -> int:
    """``hubarray untag``."""
    number = hub.untag(arguments.name, arguments.tag, root=arguments.root, message=arguments.message)
    output.value({"untagged": arguments.tag, "commit": number}, [f"{arguments.tag} no longer names commit {number}"])
    return DONE


def rename(arguments: Namespace, output: Output) -> int:
    """``hubarray rename``."""
    return _made(hub.rename(arguments.name, arguments.to, root=arguments.root, message=arguments.message), output)


def undo(arguments: Namespace, output: Output) -> int:
    """``hubarray undo``."""
    array = hub.undo(arguments.name, steps=arguments.steps, root=arguments.root, message=arguments.message)
    return _made(array, output)


def restore(arguments: Namespace, output: Output) -> int:
    """``hubarray restore``."""
    commit = int(arguments.commit) if arguments.commit.isdecimal() else arguments.commit
    return _made(hub.restore(arguments.name, commit, root=arguments.root, message=arguments.message), output)


def merge(arguments: Namespace, output: Output) -> int:
    """``hubarray merge``."""
    array = hub.merge_version(
        arguments.source, into=arguments.into, on_conflict=arguments.on_conflict, root=arguments.root,
        message=arguments.message,
    )  # fmt: skip
    return _made(array, output)


def expire(arguments: Namespace, output: Output) -> int:
    """``hubarray expire``."""
    if arguments.keep_last is None and arguments.older_than is None:
        raise ConfigError("say which commits expire: --keep-last N, --older-than TIME, or both")
    if not confirmed(f"Let old commits of {arguments.name} expire?", yes=arguments.yes):
        output.value({"error": "NotConfirmed", "message": f"{arguments.name} is as it was"}, [])
        return NOT_DONE
    number = hub.expire(
        arguments.name, keep_last=arguments.keep_last, older_than=arguments.older_than, root=arguments.root,
        message=arguments.message,
    )  # fmt: skip
    output.value({"expired_to": number}, [f"commits up to {number} have expired; 'hubarray gc' frees their data"])
    return DONE


def compact(arguments: Namespace, output: Output) -> int:
    """``hubarray compact``."""
    done = hub.compact(arguments.name, dry_run=arguments.dry_run, root=arguments.root, message=arguments.message)
    what = "would be written again" if arguments.dry_run else "written again"
    output.value(asdict(done), [f"{what}: {done.chunks:,} chunks, {human_bytes(done.bytes)}"])
    return DONE


def repair(arguments: Namespace, output: Output) -> int:
    """``hubarray repair``; 3 if anything is still wrong."""
    found = hub.repair(arguments.name, root=arguments.root)
    facts = {"repaired": [str(one) for one in found.repaired], "problems": [str(one) for one in found.problems]}
    lines = [*(f"repaired: {one}" for one in facts["repaired"]), *(f"still wrong: {one}" for one in facts["problems"])]
    output.value(facts, lines or [f"{arguments.name}: all is well"])
    return PROBLEMS if found.problems else DONE


def import_(arguments: Namespace, output: Output) -> int:
    """``hubarray import``."""
    chunks: Any = "auto"
    if arguments.chunks is not None:
        try:
            chunks = tuple(int(part) for part in arguments.chunks.split(","))
        except ValueError:
            raise ConfigError(f"--chunks {arguments.chunks}: give numbers, such as 16,64,64") from None
    array = hub.import_(
        _place(arguments.source, arguments.source_options), arguments.name, key=arguments.key, chunks=chunks,
        codec=arguments.codec, follow_links=arguments.follow_links, root=arguments.root, message=arguments.message,
    )  # fmt: skip
    return _made(array, output)


def _place(url: str, options: str | None) -> Any:
    """A path or URL, with storage options where they are given as JSON."""
    if options is None:
        return url
    try:
        parsed = json.loads(options)
    except ValueError:
        raise ConfigError("the storage options are no JSON object, such as '{\"anon\": true}'") from None
    return Root(url, storage_options=parsed)


def export(arguments: Namespace, output: Output) -> int:
    """``hubarray export``."""
    target = _place(arguments.target, arguments.target_options)
    hub.export(
        arguments.name, target, format=arguments.format, key=arguments.key, overwrite=arguments.overwrite,
        root=arguments.root,
    )  # fmt: skip
    shown = shown_url(arguments.target)
    output.value({"exported": shown}, [f"{arguments.name} is in {shown}"])
    return DONE


def transfer(arguments: Namespace, output: Output) -> int:
    """``hubarray transfer``."""
    done = hub.transfer(arguments.name, _place(arguments.to, arguments.target_options), root=arguments.root)
    text = (
        f"{done.commits} commits, {done.objects} objects of {human_bytes(done.bytes)} sent; {done.skipped} were there"
    )
    output.value(asdict(done), [text])
    return DONE


def verify(arguments: Namespace, output: Output) -> int:
    """``hubarray verify``; 3 if anything is wrong."""
    report = hub.verify(arguments.name, data=not arguments.quick, root=arguments.root)
    problems = [str(problem) for problem in report.problems]
    output.value({"problems": problems}, problems or [f"{arguments.name}: all is well"])
    return PROBLEMS if problems else DONE


def gc(arguments: Namespace, output: Output) -> int:
    """``hubarray gc``."""
    found = hub.collect_garbage(arguments.name, dry_run=arguments.dry_run, root=arguments.root)
    what = "would be deleted" if arguments.dry_run else "deleted"
    output.value(
        asdict(found), [f"{what}: {found.packs} packs, {found.nodes} manifest nodes, {human_bytes(found.bytes)}"]
    )
    return DONE


def du(arguments: Namespace, output: Output) -> int:
    """``hubarray du``: what every name takes, all its versions and commits together."""
    _require_root(arguments.root)
    store = resolve(arguments.root).store
    homes = sorted({name.partition(":")[0] for name in hub.list(arguments.prefix, root=arguments.root)})
    rows = []
    for home in homes:
        sizes = [info.size_bytes for info in store.list(f"{home}/")]
        rows.append({"name": home, "objects": len(sizes), "bytes": sum(sizes)})
    if output.json:
        output.table(rows)
        return DONE
    output.table([row | {"bytes": human_bytes(float(str(row["bytes"])))} for row in rows])
    return DONE


def cache(arguments: Namespace, output: Output) -> int:
    """``hubarray cache``."""
    settings = config.current()
    folder = Path(settings.cache_dir)
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files)
    if arguments.clear:
        shutil.rmtree(folder, ignore_errors=True)
    facts = {"folder": str(folder), "files": len(files), "bytes": size, "budget_bytes": settings.disk_cache_bytes}
    facts |= {"cleared": True} if arguments.clear else {}
    output.facts(facts, facts | {key: human_bytes(float(str(facts[key]))) for key in ("bytes", "budget_bytes")})
    return DONE


def get(arguments: Namespace, output: Output) -> int:
    """``hubarray get``."""
    array = hub.load(arguments.name, root=arguments.root)
    if arguments.index == "..." and array.nbytes > ASKED_BYTES:
        size = human_bytes(array.nbytes)
        if not confirmed(
            f"Read all of {arguments.name}, {size}? A part is read by an index, such as 0:10.", yes=arguments.yes
        ):
            output.value({"error": "NotConfirmed", "message": f"{arguments.name} has {size}"}, [])
            return NOT_DONE
    values = np.asarray(array[parsed_index(arguments.index)])
    if arguments.output == "-":
        # Of a file NumPy asks where it is, which a pipe cannot tell; of what only writes it does not.
        np.save(SimpleNamespace(write=sys.stdout.buffer.write), values, allow_pickle=False)
    elif arguments.output:
        if Path(arguments.output).exists() and not arguments.overwrite:
            raise AlreadyExistsError(f"{arguments.output}: exists already; choose another file, or pass --overwrite")
        with open(arguments.output, "wb") as file:
            np.save(file, values, allow_pickle=False)
    else:
        output.value(values.tolist(), str(values).split("\n"))
        return DONE
    output.json = output.json and arguments.output != "-"
    output.value({"saved": arguments.output, "shape": list(values.shape), "dtype": str(values.dtype)}, [])
    return DONE


def put(arguments: Namespace, output: Output) -> int:
    """``hubarray put``."""
    array = hub.load(arguments.name, root=arguments.root)
    if arguments.value == "-":
        values = _npy(sys.stdin.buffer, "standard input")
    elif Path(arguments.value).suffix == ".npy":
        with open(arguments.value, "rb") as file:
            values = _npy(file, arguments.value)
    else:
        values = _number(arguments.value)
    try:
        with np.errstate(invalid="raise"), array.transaction(arguments.message) as t:
            t[parsed_index(arguments.index)] = values
    except OverflowError:
        raise ConfigError(f"{arguments.value}: does not fit {array.dtype}") from None
    return _made(array, output)


def _npy(file: BinaryIO, where: str) -> np.ndarray:
    # As for writing: what only reads may be a pipe.
    try:
        return np.asarray(np.lib.format.read_array(SimpleNamespace(read=file.read), allow_pickle=False))
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        raise ConfigError(f"{where}: is not a .npy file of plain values ({str(error).split('.')[0]})") from None


def _number(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{text}: is neither a .npy file nor a number") from None


def parsed_index(text: str) -> Any:
    """What stands in Python's brackets, of numbers, slices and ``...`` only; nothing is run.

    Examples
    --------
    >>> parsed_index("0:2, ..., ::-1, [1, 5]")
    (slice(0, 2, None), Ellipsis, slice(None, None, -1), [1, 5])
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]") and ("," not in inner or ":" in inner or "." in inner):
        # The brackets came along; a list of numbers alone stays one.
        inner = inner[1:-1]
    try:
        tree = ast.parse(f"_[{inner}]", mode="eval").body
        assert isinstance(tree, ast.Subscript)
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        key = tuple(_part(part) for part in parts)
    except (SyntaxError, ValueError, AssertionError):
        raise ConfigError(f"{text!r} is no index; write it as in brackets, such as 0:10, ..., 3") from None
    return key if len(key) > 1 or isinstance(tree.slice, ast.Tuple) else key[0]


def _part(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        return slice(*(None if one is None else ast.literal_eval(one) for one in (node.lower, node.upper, node.step)))
    return ast.literal_eval(node)


def bench(arguments: Namespace, output: Output) -> int:
    """``hubarray bench``: writes an array of samples, reads it, and deletes it again."""
    side = 256
    count = max(16, arguments.megabytes * 1_000_000 // (side * side * 3))
    rng = np.random.default_rng(0)
    samples = (rng.integers(0, 8, (count, side, side, 3), np.uint8) + 100).astype(np.uint8)
    name = f"bench/{uuid.uuid4().hex}:v0"
    order = rng.permutation(count)[:50].tolist()
    settings = config.current()
    try:
        began = time.perf_counter()
        array = hub.array(samples.shape, name, "u1", chunks=(1, side, side, 3), root=arguments.root)
        with array.transaction("bench") as t:
            t[...] = samples
        written = time.perf_counter() - began
        hub.flush()
        # Cold is without any cache of ours; a folder's files are in the system's own all the same.
        hub.configure(disk_cache_bytes=0, memory_cache_bytes=0)
        array = hub.load(name, root=arguments.root)
        began = time.perf_counter()
        if not np.array_equal(array[...], samples):
            raise ConfigError(f"{name}: what was read is not what was written")
        read = time.perf_counter() - began
        cold = _seconds_of(lambda: [array[i] for i in order])
        hub.configure(disk_cache_bytes=settings.disk_cache_bytes, memory_cache_bytes=settings.memory_cache_bytes)
        array = hub.load(name, root=arguments.root)
        for _ in range(2):
            # The second time from the memory cache.
            warm = _seconds_of(lambda: [array[i] for i in order])
    finally:
        hub.configure(disk_cache_bytes=settings.disk_cache_bytes, memory_cache_bytes=settings.memory_cache_bytes)
        if hub.exists(name, root=arguments.root):
            hub.delete(name, root=arguments.root)
    facts = {
        "root": resolve(arguments.root).url,
        "write_megabytes_per_second": round(samples.nbytes / 1e6 / written, 1),
        "cold_read_megabytes_per_second": round(samples.nbytes / 1e6 / read, 1),
        "cold_random_sample_milliseconds": round(cold / len(order) * 1e3, 3),
        "warm_random_sample_milliseconds": round(warm / len(order) * 1e3, 3),
    }
    output.facts(facts)
    return DONE


def _seconds_of(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _made(array: hub.Array, output: Output) -> int:
    name = f"{array.name}:{array.version}"
    facts = {"name": name, "commit": array.commit, "shape": list(array.shape), "dtype": str(array.dtype)}
    output.value(facts, [f"{name}@{array.commit}: shape {array.shape}, dtype {array.dtype}"])
    return DONE
