"""Reading the sources of a run again, and what its next run then takes."""
