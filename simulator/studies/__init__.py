"""Systems built from scenarios: SPECjms2007, a clustered queue, a visibility timeout, tuning."""
