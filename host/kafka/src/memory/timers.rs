//! What is due by the clock, and what the loss of all brokers sets off.

use loom_types::Moment;

use super::faults::brokers_down;
use super::state::State;

impl State {
    /// When something is due that nobody has to ask for.
    pub fn next_event(&self) -> Option<Moment> {
        let commits = self.late_commits.iter().filter_map(|late| late.due()).filter(|_| !self.down);
        let answers = self.writers.iter().flatten().filter_map(|writer| writer.due);
        let hidden = self.topics.iter().filter_map(|topic| topic.hidden_until);
        self.next_landing().into_iter().chain(commits).chain(answers).chain(hidden).min()
    }

    /// Runs the timers of all clients.
    pub fn tick(&mut self) {
        let now = self.now();
        let mut shown = false;
        for topic in &mut self.topics {
            shown |= topic.hidden_until.take_if(|until| *until <= now).is_some();
        }
        if shown {
            self.wake_all();
        }
        self.land();
        self.run_late_commits();
        self.wake_due_writers();
    }

    /// Says to every client that no broker can be reached.
    pub fn report_down(&mut self) {
        for reader in self.readers.iter_mut().flatten() {
            reader.errors.push(brokers_down());
        }
        for writer in self.writers.iter_mut().flatten() {
            writer.errors.push(brokers_down());
        }
        self.wake_all();
    }
}
