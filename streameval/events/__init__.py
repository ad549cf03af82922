"""What an event is: its values, time and labels, validated once."""
