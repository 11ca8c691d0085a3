"""What calls cost: of pages, of runners, of forges, in a browser."""
