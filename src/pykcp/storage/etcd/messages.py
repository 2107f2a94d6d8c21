"""The protobuf messages of etcd's API that are used.

Each line below is a message of etcd v3: its fields with number, name and type.
What is not listed is not sent, and skipped when received. `*` means repeated;
fields in one pair of braces exclude each other.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELDS = {
    "ResponseHeader": "1 cluster_id uint64, 2 member_id uint64, 3 revision int64",
    "KeyValue": "1 key bytes, 2 create_revision int64, 3 mod_revision int64, 5 value bytes",
    "RangeRequest": (
        "1 key bytes, 2 range_end bytes, 3 limit int64, 4 revision int64,"
        " 7 serializable bool, 8 keys_only bool, 9 count_only bool"
    ),
    "RangeResponse": "1 header ResponseHeader, 2 *kvs KeyValue, 3 more bool, 4 count int64",
    "PutRequest": "1 key bytes, 2 value bytes, 3 lease int64",
    "PutResponse": "1 header ResponseHeader",
    "DeleteRangeRequest": "1 key bytes, 2 range_end bytes",
    "DeleteRangeResponse": "1 header ResponseHeader, 2 deleted int64",
    "Compare": (
        "1 result int32, 2 target int32, 3 key bytes, 64 range_end bytes, {6 mod_revision int64}"
    ),
    "RequestOp": (
        "{1 request_range RangeRequest, 2 request_put PutRequest,"
        " 3 request_delete_range DeleteRangeRequest, 4 request_txn TxnRequest}"
    ),
    "ResponseOp": (
        "{1 response_range RangeResponse, 2 response_put PutResponse,"
        " 3 response_delete_range DeleteRangeResponse, 4 response_txn TxnResponse}"
    ),
    "TxnRequest": "1 *compare Compare, 2 *success RequestOp, 3 *failure RequestOp",
    "TxnResponse": "1 header ResponseHeader, 2 succeeded bool, 3 *responses ResponseOp",
    "CompactionRequest": "1 revision int64, 2 physical bool",
    "CompactionResponse": "1 header ResponseHeader",
    "LeaseGrantRequest": "1 TTL int64, 2 ID int64",
    "LeaseGrantResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64",
    "LeaseRevokeRequest": "1 ID int64",
    "LeaseRevokeResponse": "1 header ResponseHeader",
    "LeaseKeepAliveRequest": "1 ID int64",
    "LeaseKeepAliveResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64",
    "WatchCreateRequest": (
        "1 key bytes, 2 range_end bytes, 3 start_revision int64, 4 progress_notify bool"
    ),
    "WatchRequest": "{1 create_request WatchCreateRequest}",
    "WatchEvent": "1 type int32, 2 kv KeyValue",
    "WatchResponse": (
        "1 header ResponseHeader, 2 watch_id int64, 3 created bool, 4 canceled bool,"
        " 5 compact_revision int64, 6 cancel_reason string, 11 *events WatchEvent"
    ),
}

EQUAL, GREATER = 0, 1
"""Results of a compare."""
MOD = 2
"""Its target: the revision of the last change."""
PUT, DELETE = 0, 1
"""Types of an event."""

PACKAGE = "pykcp.etcd"
SCALARS = {
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
}
FIELD = re.compile(r"(?P<open>\{)?(?P<number>\d+) (?P<repeated>\*)?(?P<name>\w+) (?P<type>\w+)")


def describe(fields: dict[str, str]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="pykcp/etcd.proto", package=PACKAGE, syntax="proto3"
    )
    for name, text in fields.items():
        message = file.message_type.add(name=name)
        if "{" in text:
            message.oneof_decl.add(name="either")
        for match in FIELD.finditer(text):
            add_field(message, match, in_braces="{" in text[: match.start() + 1])
    return file


def add_field(
    message: descriptor_pb2.DescriptorProto, match: re.Match[str], *, in_braces: bool
) -> None:
    field = message.field.add(name=match["name"], number=int(match["number"]))
    field.label = field.LABEL_REPEATED if match["repeated"] else field.LABEL_OPTIONAL
    if match["type"] in SCALARS:
        field.type = SCALARS[match["type"]]
    else:
        field.type = field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{match['type']}"
    if in_braces:
        field.oneof_index = 0


POOL = descriptor_pool.DescriptorPool()
POOL.Add(describe(FIELDS))


def message_class(name: str) -> Any:
    descriptor = POOL.FindMessageTypeByName(f"{PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)


RangeRequest = message_class("RangeRequest")
RangeResponse = message_class("RangeResponse")
PutRequest = message_class("PutRequest")
DeleteRangeRequest = message_class("DeleteRangeRequest")
Compare = message_class("Compare")
RequestOp = message_class("RequestOp")
TxnRequest = message_class("TxnRequest")
TxnResponse = message_class("TxnResponse")
CompactionRequest = message_class("CompactionRequest")
CompactionResponse = message_class("CompactionResponse")
LeaseGrantRequest = message_class("LeaseGrantRequest")
LeaseGrantResponse = message_class("LeaseGrantResponse")
LeaseRevokeRequest = message_class("LeaseRevokeRequest")
LeaseRevokeResponse = message_class("LeaseRevokeResponse")
LeaseKeepAliveRequest = message_class("LeaseKeepAliveRequest")
LeaseKeepAliveResponse = message_class("LeaseKeepAliveResponse")
WatchCreateRequest = message_class("WatchCreateRequest")
WatchRequest = message_class("WatchRequest")
WatchResponse = message_class("WatchResponse")
