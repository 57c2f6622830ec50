"""Ours beside Kafka, NATS JetStream and Redis, in turns.

python -m bench.cluster                                          all of it, and its plot, to build/bench
python -m bench.cluster --resume build/bench/rounds.jsonl --docs the table of docs/performance.md; whatever
                                                                 interrupts it, the same command goes on
python -m bench.cluster --rounds 1 --scale 0.01 cpu fsync        only whether these works run
"""

from __future__ import annotations

import sys

from bench.cluster.beside import main

if __name__ == "__main__":
    sys.exit(main())
