"""The web console: static files under `/console/`, and help with OpenID Connect sign-in.

It is a client of the public API with the rights of its user. See `docs/design/console.md`.
"""
