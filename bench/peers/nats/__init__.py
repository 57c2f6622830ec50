"""NATS JetStream: a cluster of three servers, and its usual Python client."""
