"""Where a series moved: by its newest points, by its history, far apart, or with its whole machine."""
