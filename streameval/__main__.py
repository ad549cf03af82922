"""``python -m streameval``: the same as the command ``streameval``."""

import sys

from streameval.cli import main

sys.exit(main())
