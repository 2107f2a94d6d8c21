"""What is known of kinds: replicas, pod templates, dependencies, health, how reports become one status."""
