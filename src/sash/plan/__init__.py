"""Planning: from bound queries to synopses, panes and measures."""
