"""The real controller over brokers whose logs are lists."""
