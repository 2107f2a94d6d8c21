"""The stages in which a shard is built: each a frozen value, made from the stages before it.

    foundation   settings, credentials, metrics, health, ways out, worker processes
    stores       the store, the watch hub, the cache
    catalog      the kinds and their resources; how objects are found
    access       logical clusters, authentication, authorization
    api          admission, the API server
    views        virtual workspaces and the front application
    controllers  made once the bootstrap objects exist

Building starts nothing: a stage lists its background tasks, and the process runs them.
"""
