"""Task decomposition: a search for each part of the request, interleaved."""
