"""Airlane runs AI training workloads from one YAML file.

This file is imported on every node, by any Python >= 3.9: it stays free of imports.
"""

__version__ = "0.1.0"
