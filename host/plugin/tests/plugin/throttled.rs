//! Hosts that get less of a processor than they want: under a quota, stopped again and again, among many neighbours. No call
//! is charged for that, whatever its role and form.
//!
//! Each test runs [`work`] in a process of its own and hampers that. Nothing is asserted about how long anything takes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use loom_plugin::{
    BatchStepNode, CallAnswer, CallPool, ExpandNode, Limits, PluginSpec, PredicateNode, SelectorNode,
    SinkInstance, StepNode,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::common::{STEPS, all, busy, load, node, payloads, skip, spec};

/// What [`work`] says when it is ready to be hampered, and when it is done.
const READY: &str = "ready to work";
const DONE: &str = "all work is done";

/// How long a process may take that gets a tenth of a processor.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
#[ignore = "the other tests of this module run it, each in its way short of processor time"]
fn work() {
    let limits = Limits { timeout: Duration::from_millis(250), ..Limits::default() };
    let limited = |name: &str| load(&PluginSpec { limits: limits.clone(), ..spec(name, Value::Null) });
    // A call computes for far less than its limit, and for so long that at a tenth of a processor it takes far more.
    let spin = format!("spin:{}", turns_in(Duration::from_millis(40)));
    for name in
        ["probe-column-step", "probe-predicate", "probe-column-predicate", "probe-roles", "probe-sink"]
    {
        // Compiled before time is short.
        limited(name);
    }
    println!("{READY}");
    std::io::stdin().read_line(&mut String::new()).unwrap();

    let batch = payloads(vec![&spin; 3]);
    let rows = all(&batch);
    for name in STEPS {
        let answers = StepNode::new(&limited(name), node()).unwrap().call(&batch, &rows);
        assert_eq!(answers.failures, [], "{name}");
        let mut pool = CallPool::step(&limited(name), node(), 3).unwrap();
        answered(&mut pool, &batch);
    }
    for name in ["probe-predicate", "probe-column-predicate"] {
        let answers = PredicateNode::new(&limited(name), node()).unwrap().call(&batch, &rows);
        assert_eq!(answers.failures, [], "{name}");
    }
    let roles = limited("probe-roles");
    assert_eq!(ExpandNode::new(&roles, node()).unwrap().call(&batch, &rows).failures, []);
    assert_eq!(SelectorNode::new(&roles, node()).unwrap().call(&batch, &rows).failures, []);
    assert_eq!(BatchStepNode::new(&roles, node()).unwrap().call(&batch, &rows).failures, []);
    let mut sink = SinkInstance::new(&limited("probe-sink"), node()).unwrap();
    sink.write(&batch, &rows, &rows).unwrap();
    sink.flush().unwrap();
    sink.close().unwrap();

    // Short waits that end late for want of a processor, and a start.
    let dozes = payloads(vec!["doze:8:10"; 2]);
    let answers = StepNode::new(&limited("probe-step"), node()).unwrap().call(&dozes, &[0, 1]);
    assert_eq!(answers.failures, []);
    answered(&mut CallPool::step(&limited("probe-step"), node(), 2).unwrap(), &dozes);
    let quick = Limits { lifecycle: Duration::from_millis(250), ..limits.clone() };
    let starting = PluginSpec { limits: quick, ..spec("probe-step", json!({"in_configure": spin})) };
    StepNode::new(&load(&starting), node()).unwrap();
    println!("{DONE}");
}

/// How many turns of `spin` take so long a time of the processor.
fn turns_in(time: Duration) -> u64 {
    let processor = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let mut step = StepNode::new(&load(&spec("probe-step", Value::Null)), node()).unwrap();
    let mut turns = 1_000_000;
    loop {
        let before = processor();
        assert_eq!(step.call(&payloads([format!("spin:{turns}")]), &[0]).failures, []);
        let took = processor() - before;
        if took >= time / 4 {
            return (turns as f64 * (time.as_secs_f64() / took.as_secs_f64())) as u64;
        }
        turns *= 2;
    }
}

/// Calls a pool for every row at once, and has each answered.
fn answered(pool: &mut CallPool<CallAnswer>, batch: &loom_types::Batch) {
    let rung = Arc::new((Mutex::new(false), Condvar::new()));
    let bell = rung.clone();
    pool.ring(Arc::new(move || {
        *bell.0.lock().unwrap() = true;
        bell.1.notify_all();
    }));
    let shared = Arc::new(batch.clone());
    (0..batch.len() as u32).for_each(|row| pool.start(u64::from(row), shared.clone(), row));
    let (start, mut answers) = (Instant::now(), 0);
    while answers < batch.len() {
        pool.take_answers(|_, answer| {
            answer.unwrap_or_else(|fault| panic!("beside the worker: {fault:?}"));
            answers += 1;
        });
        assert!(start.elapsed() < PATIENCE, "{answers} answers came");
        let lock = rung.0.lock().unwrap();
        *rung.1.wait_timeout_while(lock, Duration::from_millis(100), |rung| !*rung).unwrap().0 = false;
    }
}

/// A process that does [`work`], ready to be told to begin.
struct Worker {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start() -> Worker {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "throttled::work", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(READY) {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
        }
        Worker { process, output }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn begin(&mut self) {
        self.process.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }

    /// Whether it has ended.
    fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    fn succeeded(mut self) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success() && rest.contains(DONE), "{status}: {rest}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_process_that_is_stopped_again_and_again_loses_no_record() {
    let mut worker = Worker::start();
    worker.begin();
    let (start, pid) = (Instant::now(), worker.pid());
    while !worker.has_ended() {
        assert!(start.elapsed() < PATIENCE, "the work is not done");
        // Each turn it runs for less than a tick, and every thread that only sleeps sees its time as over.
        let _ = kill_process(pid, Signal::STOP);
        std::thread::sleep(Duration::from_millis(5));
        let _ = kill_process(pid, Signal::CONT);
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.succeeded();
}

#[test]
fn twenty_busy_neighbours_cost_no_record() {
    let mut worker = Worker::start();
    worker.begin();
    busy(20, || worker.succeeded());
}

#[test]
fn a_quota_of_processor_time_costs_no_record() {
    let Some(quota) = Quota::tenth_of_a_processor() else { return };
    let mut worker = Worker::start();
    quota.hold(worker.pid());
    worker.begin();
    worker.succeeded();
}

/// A control group that gets a tenth of one processor, however many there are.
struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// None where this process may not make one; the test is then skipped by its name. In CI that fails, unless the
    /// machine has no such controller, or it belongs to somebody else.
    fn tenth_of_a_processor() -> Option<Quota> {
        let made = Quota::make();
        let why = match made {
            Ok(quota) => return Some(quota),
            Err(why) => why,
        };
        let could = rustix::process::geteuid().is_root() && controller().is_some();
        assert!(!could || std::env::var("CI").as_deref() != Ok("true"), "no quota could be set: {why}");
        skip(&format!("no quota of processor time can be set here: {why}"));
        None
    }

    fn make() -> std::io::Result<Quota> {
        let (own, second) = controller().ok_or_else(|| std::io::Error::other("no controller `cpu`"))?;
        let folder = own.join(format!("loom-test-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        let quota = Quota { folder };
        if second {
            quota.set("cpu.max", "10000 100000")?;
        } else {
            quota.set("cpu.cfs_period_us", "100000")?;
            quota.set("cpu.cfs_quota_us", "10000")?;
        }
        Ok(quota)
    }

    fn hold(&self, process: Pid) {
        self.set("cgroup.procs", &process.as_raw_nonzero().to_string()).unwrap();
    }

    fn set(&self, file: &str, value: &str) -> std::io::Result<()> {
        std::fs::write(self.folder.join(file), value)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Its process has been waited for.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The folder of this process's control group in the hierarchy that has the controller `cpu`, and whether that is of the
/// second version.
fn controller() -> Option<(PathBuf, bool)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = |mount: &str, is_it: &dyn Fn(&str) -> bool| {
        let group = groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_it(controllers).then_some(path)
        })?;
        Some(Path::new(mount).join(group.trim_start_matches('/')))
    };
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, mount, kind, options, ..] = fields[..] else { return None };
        let is_cpu = |controllers: &str| controllers.split(',').any(|name| name == "cpu");
        match kind {
            "cgroup" if is_cpu(options) => own(mount, &is_cpu).map(|folder| (folder, false)),
            "cgroup2" => {
                let folder = own(mount, &str::is_empty)?;
                let passed_on = std::fs::read_to_string(folder.join("cgroup.subtree_control")).ok()?;
                passed_on.split_whitespace().any(|name| name == "cpu").then_some((folder, true))
            }
            _ => None,
        }
    })
}
