"""From row groups to rows: threads and processes that read ahead, filter and transform."""
