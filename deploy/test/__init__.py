"""The containers of deploy/, tried for real: `make deploy-test`."""
