"""The client side: a connection with typed calls, and Kafka's partitioner.

Producer, Consumer and Admin are not there yet.
"""
