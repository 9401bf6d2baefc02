//! The host as its users run it: the binary, a flow file in a folder, signals, the log, the exit status.

mod binary;
mod child;
mod folder;
mod log;
mod memory;
mod stopped;

pub use binary::path as binary;
pub use child::{Ended, Host, Signal};
pub use folder::Folder;
pub use log::Line;
pub use memory::Memory;
pub use stopped::Stopped;
