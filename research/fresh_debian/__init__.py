"""Fresh Debian machines that follow docs/installing.md, so that the page and what is true are one."""
