"""Tasks: templates of prompts that people, programs and cron patterns execute, and webhooks about the results."""
