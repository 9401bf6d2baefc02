//! Newtypes, column batches and metric names that every crate of loom-host shares
