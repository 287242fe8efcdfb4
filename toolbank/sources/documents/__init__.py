"""Documents in JSON or YAML, from files and from the web, within bounds."""
