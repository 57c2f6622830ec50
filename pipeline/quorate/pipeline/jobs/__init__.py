"""Jobs on Spark, ready to run: `quorate pipeline run`."""
