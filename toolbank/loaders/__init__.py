"""Other people's datasets in and out."""
