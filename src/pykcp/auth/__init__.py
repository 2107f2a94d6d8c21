"""Who is asking and what they may do. Imports machinery and wire contracts only.

`user` and `scopes` are identities; `authn` turns a request into one; `authz` decides;
`impersonation` changes one into another; `reviews` answers questions about decisions;
`certificates`, `kubeconfig` and `tokens` make the credentials a server hands out.
"""
