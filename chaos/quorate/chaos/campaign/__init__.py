"""Many simulated runs: worker processes, failing seeds made small and readable, and evidence that adds up."""
