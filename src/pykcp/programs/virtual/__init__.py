"""The program `virtual-workspaces`: a door of their own to a shard's virtual workspaces.

Views read a shard's store, where a watch over thousands of workspaces costs next to nothing,
so they stay in its process. This program gives them another address, certificate and
sign-in: it finds out who asks, and asks the shard for them.
"""
