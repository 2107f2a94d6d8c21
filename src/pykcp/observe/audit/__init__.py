"""Audit logging, as Kubernetes defines it.

`policy` decides what is recorded of a request, `lines` encodes events, `backends` and `modes`
write or send them, and `trail` combines all of these. The server's filter
(`server/filters/audit`) creates the events.
"""
