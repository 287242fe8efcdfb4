"""What lies behind the figures: which tools and requests are missed, and what Recall follows."""
