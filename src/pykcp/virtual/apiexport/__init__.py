"""`/services/apiexport/<cluster>/<export>/clusters/<cluster or *>/…`: a provider's consumers.

The owner of an export sees what its consumers made of the exported resources, the objects
they let it claim, and their bindings; in one consumer or in all of them.
"""

from pykcp.virtual.apiexport.workspace import ApiExportWorkspace

__all__ = ["ApiExportWorkspace"]
