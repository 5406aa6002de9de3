"""The mock interview: which questions, which follow-ups, what the report says. The page has the same rules in `web/src/mock`."""
