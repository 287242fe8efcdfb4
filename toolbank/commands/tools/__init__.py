"""Looking at the tools of an API before anything is made of them."""
