//! What a run writes: each row is one that its record makes, written once, in the order that is promised.

use loom_types::ErrorKind;

use super::inputs::Inputs;
use super::model::Row;
use super::needs::Place;
use super::run::{Held, Run};

impl Run {
    /// The record of a row and the leaf that the row is, and whether no other leaf looks the same. Leaves of a record at one
    /// terminal have the order in which their rows were made.
    fn leaf(&self, inputs: &Inputs, row: &Row, place: Place) -> Result<(usize, usize, bool), String> {
        let Some(known) = inputs.records.get(row.number) else {
            return Err(format!("{place:?} got {row:?}, which comes from no record"));
        };
        let fitting = |leaf: usize| {
            let leaf = &known.needs.leaves[leaf];
            leaf.place == place && leaf.label == row.label
        };
        let fitting: Vec<usize> = (0..known.needs.leaves.len()).filter(|leaf| fitting(*leaf)).collect();
        let Some(first) = fitting.first() else {
            let all = known.needs.told(None);
            return Err(format!("{place:?} got {row:?}; the flow makes {all:?}"));
        };
        let Some(progress) = self.progress.get(&row.number) else {
            let name = &inputs.logs[known.partition].name;
            let offset = known.input.offset;
            return Err(format!("{place:?} got {row:?} of {name} {offset}, which was not taken"));
        };
        let open = fitting.iter().find(|leaf| progress.done[**leaf] == 0);
        Ok((row.number, *open.unwrap_or(first), fitting.len() == 1))
    }

    /// A row was written to an output. `prompt`: nothing may be overtaken on its way there.
    pub(super) fn written(
        &mut self,
        inputs: &Inputs,
        output: usize,
        to: i32,
        row: &Row,
        prompt: bool,
    ) -> Held {
        let (number, leaf, alone) = self.leaf(inputs, row, Place::Topic(output))?;
        let known = &inputs.records[number];
        let (partition, offset, leaf_facts) =
            (known.partition, known.input.offset, &known.needs.leaves[leaf]);
        let Some(progress) = self.progress.get_mut(&number) else { return Ok(()) };
        progress.done[leaf] += 1;
        if progress.done[leaf] > 1 {
            return Err(format!("output {output} got {row:?} twice in one run"));
        }
        if leaf_facts.error || self.disordered.contains(&output) {
            return Ok(());
        }
        let terminal = leaf_facts.terminal;
        if alone {
            let last = self.terminals.insert((terminal, partition, to), (offset, leaf));
            // Where a log was cut its offsets begin anew.
            if let Some(last) = last.filter(|last| *last >= (offset, leaf))
                && !self.is_cut(partition)
            {
                return Err(format!(
                    "output {output}/{to}, terminal {terminal}: {row:?} of {offset} came after {last:?}"
                ));
            }
        }
        if prompt {
            let last = self.outputs.insert((output, partition, to), offset).unwrap_or(i64::MIN);
            if last > offset && !self.is_cut(partition) {
                return Err(format!("output {output}/{to}: {row:?} of {offset} came after {last}"));
            }
        }
        Ok(())
    }

    /// A sink was given a row.
    pub(super) fn sink_given(&mut self, inputs: &Inputs, sink: usize, row: &Row) -> Held {
        let (number, leaf, _) = self.leaf(inputs, row, Place::Sink(sink))?;
        let known = &inputs.records[number];
        let (partition, offset, facts) = (known.partition, known.input.offset, &known.needs.leaves[leaf]);
        let Some(progress) = self.progress.get_mut(&number) else { return Ok(()) };
        let first = !std::mem::replace(&mut progress.wrote[leaf], true);
        if progress.done[leaf] > 0 {
            return Err(format!("sink {sink} was given {row:?} again, which it had completed"));
        }
        if facts.error || self.is_cut(partition) {
            return Ok(());
        }
        let waiting = self.waiting.entry((facts.terminal, partition)).or_default();
        waiting.remove(&offset);
        if let Some(before) = waiting.first().copied().filter(|before| *before < offset)
            && first
            && !self.stopping
        {
            return Err(format!("sink {sink} was given {row:?} of {offset} past {before}, which waits"));
        }
        if first {
            let last = self.terminals.insert((facts.terminal, partition, -1), (offset, leaf));
            if let Some(last) = last.filter(|last| *last >= (offset, leaf)) {
                return Err(format!("sink {sink} was given {row:?} of {offset} after {last:?}"));
            }
        }
        Ok(())
    }

    /// A sink asks to be given a row again.
    pub(super) fn sink_waits(&mut self, inputs: &Inputs, sink: usize, row: &Row) -> Held {
        let (number, leaf, _) = self.leaf(inputs, row, Place::Sink(sink))?;
        let known = &inputs.records[number];
        let facts = &known.needs.leaves[leaf];
        if !facts.error {
            self.waiting.entry((facts.terminal, known.partition)).or_default().insert(known.input.offset);
        }
        Ok(())
    }

    /// A sink completes a row.
    pub(super) fn sunk(&mut self, inputs: &Inputs, sink: usize, row: &Row) -> Held {
        let (number, leaf, _) = self.leaf(inputs, row, Place::Sink(sink))?;
        if let Some(progress) = self.progress.get_mut(&number) {
            progress.done[leaf] += 1;
        }
        Ok(())
    }

    /// A row failed at its place for good, with this kind of error.
    pub(super) fn fails(&mut self, inputs: &Inputs, place: Place, row: &Row, kind: ErrorKind) -> Held {
        let (number, leaf, _) = self.leaf(inputs, row, place)?;
        let like = inputs.records[number].needs.leaves[leaf].like;
        if let Some(progress) = self.progress.get_mut(&number) {
            progress.failed.push((like, kind));
        }
        Ok(())
    }
}
