"""Parquet datasets on servers that ask to try later for seconds, break off, are gone, or refuse the credentials."""

import functools
import http.server
import re
import threading
import time
import uuid

import numpy as np
import pytest

import hubarray as hub
from tests.servers import closed_port

BUSY_SECONDS = 1.5
SCHEMA = hub.petastorm.Unischema(
    "Rows",
    [
        hub.petastorm.UnischemaField("id", np.int64, (), None, False),
        hub.petastorm.UnischemaField("image", np.uint8, (64, 64), hub.petastorm.NdarrayCodec(), False),
    ],
)


def rows(count):
    return ({"id": i, "image": np.full((64, 64), i % 250, "u1")} for i in range(count))


@pytest.fixture
def place(s3_server, proxy):
    """A dataset of 10 row groups, and options that lead to it by way of the proxy."""
    proxy.plan = lambda method, path: None
    url = f"{s3_server.url}/{uuid.uuid4().hex}/data"
    with hub.parquet_writer(url, SCHEMA, rows_per_row_group=20, storage_options=s3_server.options) as writer:
        writer.write_rows(rows(200))
    yield url, s3_server.options | {"endpoint_url": proxy.endpoint}
    proxy.plan = lambda method, path: None


def busy(proxy, fault, seconds=BUSY_SECONDS):
    end = time.monotonic() + seconds
    proxy.failed.clear()
    proxy.plan = lambda method, path: fault if time.monotonic() < end else None


FAULTS = ["503 SlowDown", 500, 429, "400 RequestTimeout", "cut", "reset"]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_dataset_is_opened_and_read_once_its_server_has_time(place, proxy, fault):
    url, options = place
    busy(proxy, fault)
    with hub.make_reader(url, storage_options=options) as reader:
        assert sorted(row.id for row in reader) == list(range(200))
    assert proxy.failed


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_an_epoch_under_way_goes_on(place, proxy, fault):
    url, options = place
    options = {"storage_options": options, "workers_count": 1, "results_queue_size": 1}
    # Of a small epoch all is loaded with the first row.
    with hub.make_reader(url, shuffle_row_groups=False, num_epochs=6, **options) as reader:
        result = [next(reader).id]
        busy(proxy, fault)
        result += [row.id for row in reader]
    assert result == 6 * list(range(200))
    assert proxy.failed


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_dataset_is_written_once_its_server_has_time(place, proxy, fault):
    url, options = place
    busy(proxy, fault)
    with hub.parquet_writer(f"{url}-written", SCHEMA, rows_per_row_group=10, storage_options=options) as writer:
        writer.write_rows(rows(50))
    with hub.make_reader(f"{url}-written", storage_options=options) as reader:
        assert sorted(row.id for row in reader) == list(range(50))
    assert proxy.failed


def test_a_file_that_is_being_written_outlives_a_busy_server(place, proxy):
    url, options = place
    with hub.parquet_writer(f"{url}-written", SCHEMA, rows_per_row_group=10, storage_options=options) as writer:
        writer.write_rows(rows(50))
        busy(proxy, "503 SlowDown", 3)
    with hub.make_reader(f"{url}-written", storage_options=options) as reader:
        assert sorted(row.id for row in reader) == list(range(50))
    assert proxy.failed


def test_the_setting_ends_the_wait(place, proxy):
    url, options = place
    hub.configure(retry_timeout_seconds=2)
    busy(proxy, "503 SlowDown", 60)
    began = time.monotonic()
    with pytest.raises(hub.errors.UnavailableError, match="503"):
        hub.make_reader(url, storage_options=options)
    assert time.monotonic() - began < 8


def test_a_server_that_is_gone_is_named_soon(s3_server):
    with closed_port() as port:
        options = s3_server.options | {"endpoint_url": f"http://127.0.0.1:{port}"}
        for call in (
            lambda: hub.make_reader("s3://bkt/data", storage_options=options),
            lambda: hub.parquet_writer("s3://bkt/data", SCHEMA, storage_options=options).write(next(rows(1))),
        ):
            began = time.monotonic()
            with pytest.raises(hub.errors.UnavailableError, match="s3://bkt/data"):
                call()
            assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        ("400 ExpiredToken", "have expired"),
        ("403 RequestTimeTooSkewed", "clock"),
        ("403 InvalidAccessKeyId", "storage_options"),
    ],
)
def test_credentials_that_are_refused_are_told_apart(place, proxy, answer, advice):
    url, options = place
    busy(proxy, answer, 60)
    for call in (
        lambda: hub.make_reader(url, storage_options=options),
        lambda: hub.parquet_writer(f"{url}-2", SCHEMA, storage_options=options).write(next(rows(1))),
    ):
        with pytest.raises(hub.errors.AccessDeniedError, match=advice):
            call()


@pytest.mark.parametrize("status", [503, 429, 403, 404])
def test_a_web_server_that_is_busy_or_refuses(tmp_path, status):
    with hub.parquet_writer(tmp_path / "data", SCHEMA, rows_per_row_group=10) as writer:
        writer.write_rows(rows(30))
    file = next((tmp_path / "data").glob("*.parquet"))
    end = []

    class Busy(http.server.SimpleHTTPRequestHandler):
        """Answers ranges, which http.server does not."""

        def do_GET(self):
            self.do_HEAD()

        def do_HEAD(self):
            end[:] = end or [time.monotonic() + BUSY_SECONDS]
            if status in (403, 404) or time.monotonic() < end[0] or not self.path.endswith(file.name):
                self.send_error(status if self.path.endswith(file.name) else 404)
                return
            data = file.read_bytes()
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            part = data[int(asked.group(1)) : int(asked.group(2)) + 1] if asked else data
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)

        def log_message(self, *args):
            pass

    handler = functools.partial(Busy, directory=str(tmp_path / "data"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/{file.name}"
    try:
        if status in (403, 404):
            with pytest.raises(hub.errors.AccessDeniedError if status == 403 else hub.errors.NotFoundError):
                hub.make_reader(url)
            return
        with hub.make_reader(url) as reader:
            assert sorted(row.id for row in reader) == list(range(30))
    finally:
        server.shutdown()
        server.server_close()
