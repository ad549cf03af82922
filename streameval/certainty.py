"""The former name of :mod:`streameval.uncertainty`, by which older pickles name its classes."""

from __future__ import annotations

import sys

from streameval.uncertainty import interval, paired

sys.modules.update({f"{__name__}.interval": interval, f"{__name__}.paired": paired})
