"""kcp's own formulas and formats: names, hashes, claims, conditions, locks. Pure."""
