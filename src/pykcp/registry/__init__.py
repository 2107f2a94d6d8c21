"""From a verb on a kind to the store: what every kind has in common.

May import storage, auth, apis and machinery; knows nothing of HTTP.
"""
