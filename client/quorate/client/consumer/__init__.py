"""Reading records: positions that are checked, fetched ahead, handed out in order.

From the outside in: `Consumer` and `AsyncConsumer` hand out records and differ in how they wait. A
`PartitionReader` knows where one partition stands, `Fetching` keeps each of them with the broker that it is
read from, a `BrokerFetcher` holds one broker's `FetchStream`, and the `FetchBuffer` has what arrived.
"""

from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.consumer.options import ConsumerOptions
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.consumer.sync_consumer import Consumer

__all__ = ["AsyncConsumer", "Consumer", "ConsumerOptions", "ConsumerStatistics"]
