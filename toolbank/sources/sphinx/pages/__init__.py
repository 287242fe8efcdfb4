"""What a page of a Sphinx site says of the objects that it documents."""
