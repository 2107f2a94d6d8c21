"""`x-kubernetes-validations`: the rules of a schema, checked, compiled and run."""
