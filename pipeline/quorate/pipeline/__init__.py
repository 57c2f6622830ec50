"""Topics in Spark: the data source `quorate`, and jobs that are made of it."""
