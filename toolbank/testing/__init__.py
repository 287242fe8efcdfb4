"""What every kind has to do, as checks that the author of another one can run too."""
