"""What can go wrong for a user; every message is one sentence that ends in the remedy.

PykvbenchError
 +-- UsageError            the request cannot be carried out as written
 |    +-- BackendUnavailable   the backend's framework or device is missing here
 |    +-- RunFileError         the file is not a run, not a table, or not readable
 +-- DriverError           a driver failed while measuring; costs the visit, not the run
 +-- KVFileError           a stored KV cache cannot be used; it is computed again
"""


class PykvbenchError(Exception):
    """Root of everything pykvbench raises on purpose."""


class UsageError(PykvbenchError):
    """The request cannot be carried out as written (exit status 2)."""


class BackendUnavailable(UsageError):
    """The backend's framework or device is missing on this machine (exit status 2)."""


class RunFileError(UsageError):
    """The file given is not a run file or a table of lengths and times (exit status 2)."""


class DriverError(PykvbenchError):
    """A driver failed at one length; the visit is lost and the run goes on."""


class KVFileError(PykvbenchError):
    """A stored KV cache is missing, cut short, damaged or of something else; it is computed again."""
