import subprocess
import sys

import hubarray as hub


def test_the_public_names_are_these():
    assert sorted(hub.__all__) == hub.__all__
    assert all(hasattr(hub, name) for name in hub.__all__)
    functions = [name for name in hub.__all__ if name[0].islower()]
    assert functions == [
        "array",
        "collect_garbage",
        "compact",
        "configure",
        "copy",
        "delete",
        "diff",
        "exists",
        "expire",
        "export",
        "flush",
        "freeze",
        "import_",
        "list",
        "load",
        "log",
        "merge_version",
        "rename",
        "repair",
        "restore",
        "retry",
        "stats",
        "store",
        "tag",
        "tags",
        "transfer",
        "undo",
        "untag",
        "verify",
    ]


def test_every_error_is_a_hub_error():
    errors = [getattr(hub, name) for name in hub.__all__ if name.endswith(("Error", "Unknown"))]
    assert all(issubclass(error, hub.HubError) for error in errors)


def test_importing_is_quick_and_leaves_heavy_packages_alone():
    program = (
        "import sys, time; began = time.perf_counter(); import hubarray; seconds = time.perf_counter() - began;"
        "heavy = {'zarr', 'dask', 's3fs', 'gcsfs', 'fsspec', 'obstore', 'botocore', 'pandas', 'torch', 'tqdm'};"
        "print(seconds, sorted(heavy & set(sys.modules)))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    seconds, heavy = min(float(run.stdout.split()[0]) for run in runs), runs[0].stdout.split(maxsplit=1)[1].strip()
    assert heavy == "[]"
    assert seconds < 0.5
