"""One handler for each method of BrokerService; ``broker_service`` puts them together."""
