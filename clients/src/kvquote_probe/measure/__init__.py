"""What the probe measures with torch: memory, caches, ceilings, rates and step times, each in a process of its own."""
