"""Text, ANSI colours, Markdown and plain templates."""
