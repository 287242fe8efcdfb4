"""Non-negative elastic net decoding over the tools' vectors (arXiv 2606.17910)."""
