"""The rules of the course, one file per subject. Each rule is a function from the graph to problems; `infer_course.check` runs them all."""
