"""What other sites and programs read: badges, pictures, feeds, exports, and signs of life."""
