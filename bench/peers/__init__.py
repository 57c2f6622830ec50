"""Other systems, run on this machine to be measured and drilled beside ours."""
