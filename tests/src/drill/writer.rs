//! The load: numbered records, written at a steady rate until told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::kafka::{Pen, Record};

/// How often records are written; in between the writer rests.
const BEAT: Duration = Duration::from_millis(10);

pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<u64>>>,
}

impl Writer {
    /// Writes so many records a second, to the partitions in turn.
    pub(super) fn start(mut pen: Pen, partitions: u32, rate: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let a_beat = (u64::from(rate) * BEAT.as_millis() as u64 / 1000).max(1);
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut written = vec![0_u64; partitions as usize];
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..a_beat {
                        write_one(&mut pen, &mut written)?;
                    }
                    std::thread::sleep(BEAT);
                }
                pen.finish()?;
                Ok(written)
            }
        });
        Self { stop, thread }
    }

    /// Stops, and returns how many records each partition has, all acknowledged.
    pub(super) fn stop(self) -> Result<Vec<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the writer panicked"))?
    }
}

/// Writes the next record, to the partition that has the fewest.
fn write_one(pen: &mut Pen, written: &mut [u64]) -> Result<()> {
    let (partition, number) = match written.iter_mut().enumerate().min_by_key(|(_, count)| **count) {
        Some((partition, count)) => {
            *count += 1;
            (partition, *count - 1)
        }
        None => return Err(anyhow!("a topic without partitions")),
    };
    let payload =
        format!(r#"{{"p":{partition},"i":{number},"filling":"some bytes as a real record has them"}}"#);
    pen.write(&Record::new(payload).key(format!("p{partition}")).partition(partition as i32))
}
