"""One hand-written attention decode step per framework, and the float64 reference they are checked against."""
