"""The oldest releases that setup.cfg allows, as constraints for pip: ``python tests/oldest.py > constraints.txt``."""

import configparser
import re
from pathlib import Path

SETTINGS = Path(__file__).parents[1] / "setup.cfg"


def constraints(requirements):
    """Each lower bound as the one release that is allowed.

    >>> constraints("numpy>=2.0\\n# why\\nbotocore")
    ['numpy==2.0']
    """
    bounds = re.findall(r"^([\w-]+)>=([\d.]+)$", requirements, re.MULTILINE)
    return [f"{name}=={version}" for name, version in bounds]


if __name__ == "__main__":
    settings = configparser.ConfigParser()
    settings.read(SETTINGS)
    runtime = constraints(settings["options"]["install_requires"])
    # Each release of distributed goes with one of dask.
    print("\n".join([*runtime, *(item.replace("dask", "distributed") for item in runtime if item.startswith("dask="))]))
