"""What a conversation remembers, on disk before anybody hears of it."""
