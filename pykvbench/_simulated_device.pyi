"""An asynchronous device with programmed latencies: ground truth for the harness."""

from typing_extensions import CapsuleType

class Device:
    """Executes queued work in order, on a thread of its own.

    Work is over when the clock passes its end. A wait is spun for its last 200 us, so that what it measures is the work
    and not a thread's wake-up. Deleting the device drops the work still queued.
    """

    def __init__(self) -> None: ...
    def submit(self, duration_ns: int) -> None:
        """Queue work that ends duration_ns after the later of now and the end of the work before it; returns at once.

        ValueError unless duration_ns is between 0 and one hour.
        """

    def wait(self) -> None:
        """Return when all work queued before the call is done; releases the GIL, cannot be interrupted."""

    def busy(self) -> bool:
        """Whether any work queued is not done yet."""

    def wait_hook(self) -> CapsuleType:
        """A PyCapsule for `_timer.run` that does what wait does, holding the GIL; it keeps the device alive."""

    def submit_hook(self, duration_ns: int) -> CapsuleType:
        """A PyCapsule for `_timer.run` that submits duration_ns each time it is called; it keeps the device alive."""

    @staticmethod
    def spin(duration_ns: int) -> None:
        """Keep the calling thread busy for duration_ns, holding the GIL, as dispatching work does."""
