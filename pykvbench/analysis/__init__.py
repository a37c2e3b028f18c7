"""What a run says: pure functions from measured times to findings and verdicts."""
