"""Small drawings beside words: badges, cards of links, sparklines, strips of dots."""
