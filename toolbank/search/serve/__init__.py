"""Search as a service: packed finders over HTTP, on a page."""
