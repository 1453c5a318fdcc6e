"""What needs two of the packages: experiments, searches, files of a fleet, live SPECjms."""
