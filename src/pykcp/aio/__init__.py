"""asyncio tools, independent of Kubernetes."""
