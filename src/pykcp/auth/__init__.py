"""Authentication and authorization. Imports machinery and wire contracts only.

`user` and `scopes` are identities; `authn` authenticates a request; `authz` decides whether it is
allowed; `impersonation` replaces an identity by another one; `reviews` answers access reviews;
`certificates`, `kubeconfig` and `tokens` issue the server's own credentials.
"""
