"""Commands for APIs: bind exports, accept or reject claims, convert CRDs."""
