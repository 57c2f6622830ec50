"""Ours beside Kafka, in turns: `python -m bench.cluster [--rounds 3] [--without-kafka] [WORK...]`.

Writes what was measured, and a plot of it, to build/bench.
"""

from __future__ import annotations

import sys

from bench.cluster.beside import main

if __name__ == "__main__":
    sys.exit(main())
