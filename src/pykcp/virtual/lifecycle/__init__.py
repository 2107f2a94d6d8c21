"""What `initializingworkspaces` and `terminatingworkspaces` have in common."""

from pykcp.virtual.lifecycle.views import Lifecycle, LifecycleWorkspace, is_own_removal

__all__ = ["Lifecycle", "LifecycleWorkspace", "is_own_removal"]
