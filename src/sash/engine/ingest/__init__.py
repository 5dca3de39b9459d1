"""What a batch reads, in which order, and what of it is late, rejected or retained."""
