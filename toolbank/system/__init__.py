"""Ground floor: files, numbers, text, terminal."""
