"""The readable side of the store, for the parts of a server that read it or listen to its changes.

Admission, filters and views need values and events as they are stored; they must not write. They
import these names from here, so that the store itself is known to the registry and to the programs
that build it.
"""

from __future__ import annotations

from pykcp.storage.errors import StoreError
from pykcp.storage.interface import Entry, Event, Query, StoreReader, Value

__all__ = ["Entry", "Event", "Query", "StoreError", "StoreReader", "Value"]
