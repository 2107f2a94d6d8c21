"""asyncio tools that know nothing of Kubernetes."""
