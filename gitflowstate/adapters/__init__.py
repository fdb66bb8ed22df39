"""One outside library each, behind a Protocol of `ports`; adapters never import the store."""
