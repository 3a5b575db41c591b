"""What command line, API and pages all call: advice, reports, imports, each once."""
