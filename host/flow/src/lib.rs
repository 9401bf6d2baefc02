//! Flow language: YAML to a checked plan
