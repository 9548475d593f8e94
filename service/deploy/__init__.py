"""What an operator needs beside the code: locked requirements and the container's health check."""
