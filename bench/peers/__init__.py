"""Other systems, run on this machine to be measured beside ours."""
