"""Seeds for libraries that take no negative one."""


def unsigned(seed: int, bits: int = 63) -> int:
    """A recipe's seed, of 64 bits with a sign, as one of so many bits without."""
    return int(seed % 2**bits)
