"""Kubernetes 1.36's CEL: a compiler from expressions to Python.

`program.compile_expression` makes a `Program` of one expression in an `Environment`;
`rules.RuleSet` runs the x-kubernetes-validations of a schema; `rule_checks.check_rules`
says whether a CRD may hold them. Nothing is imported here: a server that meets no rule
does not pay for them.
"""
