"""Discovery, OpenAPI and version documents."""
