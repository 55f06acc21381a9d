"""``python -m hubarray``."""

import sys

from hubarray.cli.main import main

sys.exit(main())
