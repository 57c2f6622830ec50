"""Many of our producers in one process, each with one record on its way; prints what they measured as JSON.

python -m bench.cluster.many_producers BOOTSTRAP TOPIC PRODUCERS VALUE_BYTES WARM_UP_S SECONDS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop

from bench.light.tally import Tally
from quorate.client import AsyncProducer


async def main(bootstrap: str, topic: str, producers: int, value_bytes: int, tally_s: list[float]) -> None:
    made = [AsyncProducer(bootstrap) for _ in range(producers)]
    value = bytes(value_bytes)
    # Every one is connected before the first is counted.
    await asyncio.gather(*[_send(producer, topic, value) for producer in made])
    tally = Tally(warm_up_s=tally_s[0], seconds=tally_s[1])
    tally.begin()
    async with asyncio.TaskGroup() as group:
        for producer in made:
            group.create_task(_send_on(producer, topic, value, tally))
    document = tally.document()
    for producer in made:
        await producer.close()
    json.dump({**document, "records_per_s": document["answers_per_s"]}, sys.stdout)


async def _send(producer: AsyncProducer, topic: str, value: bytes) -> None:
    await (await producer.send(topic, value))


async def _send_on(producer: AsyncProducer, topic: str, value: bytes, tally: Tally) -> None:
    while True:
        asked_at = time.perf_counter()
        await _send(producer, topic, value)
        if not tally.add(len(value), asked_at):
            return


if __name__ == "__main__":
    _bootstrap, _topic, _producers, _value_bytes, *_times = sys.argv[1:]
    uvloop.run(main(_bootstrap, _topic, int(_producers), int(_value_bytes), [float(each) for each in _times]))
