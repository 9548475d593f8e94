"""What the service says about itself: logs, metrics, request ids."""
