"""What other pages embed, and what is downloaded: badges, cards, feeds, files."""
