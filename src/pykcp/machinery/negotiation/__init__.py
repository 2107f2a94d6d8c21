"""What several clusters have in common: schemas that accept only what all of them accept. Pure.

`meet` combines two schemas, `resource` two definitions of a resource, `importing` turns the types
of a cluster (CRDs, OpenAPI v3 and v2) into definitions.
"""
