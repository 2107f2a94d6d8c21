"""Protobuf forms of Kubernetes' kinds, from tables of their fields. Pure.

Typed Go clients prefer `application/vnd.kubernetes.protobuf`. A body is turned into the JSON
values that a JSON body would have given, and an object of JSON values into the bytes that Go
would have written, so that everything behind decoding is shared.
"""
