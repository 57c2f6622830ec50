"""What clients did, were told and saw during a run, in memory and as a file that outlives the run."""
