"""The program `virtual-workspaces`: a proxy in front of a shard's virtual workspaces.

Views read a shard's store, where a watch over thousands of workspaces costs next to nothing,
so they run in its process. This program gives them another address, certificate and
authentication: it authenticates users and forwards their requests to the shard.
"""
