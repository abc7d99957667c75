"""Other queues on PostgreSQL, each a program that runs in an environment of its own."""
