"""What an event means: a task's input, what it gives to states, and its labels; one row a task."""
