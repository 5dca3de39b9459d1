"""Reading windows that slide: histories, isolation levels and their checkers, schedulers, a coordinator."""
