"""Controllers of `apis.kcp.io`: exports, bindings, endpoint slices and bound CRDs."""
