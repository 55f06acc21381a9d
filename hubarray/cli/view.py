"""The command that shows data in the browser."""

from __future__ import annotations

import contextlib
from argparse import Namespace

import hubarray as hub
from hubarray.cli.command import DONE, argument, command, count
from hubarray.cli.look import require_root
from hubarray.cli.output import Output


@command(
    "view",
    "Show arrays, tables and datasets in the browser.",
    examples=(
        "hubarray view",
        "hubarray view lab/scans:v1",
        "hubarray view lab/train:v1 --key image --no-browser",
        "hubarray view lab/scans:v1 --allow-origin https://neuroglancer-demo.appspot.com",
    ),
    arguments=(
        argument("name", nargs="?", help="what to show first (default: all names)"),
        argument("--key", help="an array of the dataset"),
        argument("--port", type=count, default=0, help="the port (default: a free one)"),
        argument("--host", default="127.0.0.1", help="the address to listen on; any but loopback lets others in"),
        argument("--allow-other-hosts", action="store_true", help="confirm another --host than loopback"),
        argument(
            "--allow-origin",
            action="append",
            default=[],
            metavar="ORIGIN",
            help="another site that may read",
        ),
        argument("--no-browser", action="store_true", help="only print the address"),
        argument("--with", dest="with_", choices=("neuroglancer",), help="open the array in another viewer"),
    ),
)
def view(arguments: Namespace, output: Output) -> int:
    """``hubarray view``."""
    require_root(arguments.root)
    options = {"key": arguments.key, "with_": arguments.with_, "port": arguments.port, "host": arguments.host}
    served = hub.view(
        arguments.name, root=arguments.root, open_browser=not arguments.no_browser and not output.json,
        allow_origins=arguments.allow_origin, allow_other_hosts=arguments.allow_other_hosts, **options,
    )  # fmt: skip
    if output.json or arguments.no_browser:
        output.value({"url": served.url, "port": served.port}, [served.url])
        output.finish()
    with contextlib.suppress(KeyboardInterrupt), served:
        served.wait()
    return DONE
