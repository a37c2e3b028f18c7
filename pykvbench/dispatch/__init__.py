"""Pure, version-tagged rules: which kernel a shape takes, and at which lengths that changes."""
