//! One Kafka process: broker and controller in one, alone or as one of a cluster.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::options::Options;
use super::properties::{self, Ports};
use super::watchdog::Watchdog;
use crate::programs::output;

/// How long a broker may take until it accepts connections, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// A broker of our own. Dropping it kills the process and removes its data.
pub struct Kafka {
    jars: PathBuf,
    folder: PathBuf,
    ports: Ports,
    listeners: Vec<String>,
    machine: Vec<String>,
    running: Option<Running>,
}

struct Running {
    // Declared first, so that it is called off before the process ends and its id can be given to another.
    _watchdog: Watchdog,
    java: Child,
}

impl Kafka {
    /// Starts a broker with empty data on ports that are free. Returns when it accepts connections.
    pub fn start(jars: &Path, options: &Options) -> Result<Self> {
        Self::cluster(jars, 1, options)?.pop().context("a cluster of one has one broker")
    }

    /// Starts a cluster of so many brokers, each of which is one of its controllers; their ids are their places from 1.
    /// Topics are replicated to three of them. Returns when all accept connections.
    pub fn cluster(jars: &Path, brokers: usize, options: &Options) -> Result<Vec<Self>> {
        let mut attempt = 1;
        loop {
            match Self::try_cluster(jars, brokers, options) {
                Ok(kafka) => return Ok(kafka),
                // Another process may have taken a port since it was found free.
                Err(error) if attempt < 3 && format!("{error:#}").contains("Address already in use") => {
                    attempt += 1
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn try_cluster(jars: &Path, brokers: usize, options: &Options) -> Result<Vec<Self>> {
        let ports = Ports::choose(brokers, options.listeners.len())?;
        let mut cluster = Vec::with_capacity(brokers);
        for (at, own) in ports.iter().enumerate() {
            let folder =
                std::env::temp_dir().join(format!("loom-kafka-{}-{}", std::process::id(), own.broker));
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            // From here on the folder is removed when the value is dropped.
            let kafka = Self {
                jars: jars.to_owned(),
                folder,
                ports: own.clone(),
                listeners: options.listeners.iter().map(|listener| listener.name.clone()).collect(),
                machine: options.machine(brokers),
                running: None,
            };
            let settings = properties::server(at + 1, &ports, &kafka.folder.join("data"), options);
            fs::write(kafka.settings(), settings)?;
            fs::write(kafka.folder.join("log4j2.properties"), properties::LOG4J)?;
            cluster.push(kafka);
        }
        let id = properties::cluster_id();
        std::thread::scope(|scope| {
            let (id, mut formats) = (&id, Vec::new());
            for kafka in &cluster {
                formats.push(scope.spawn(move || kafka.format(id, brokers, options)));
            }
            let join = |format: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                format.join().unwrap_or_else(|_| bail!("a thread panicked"))
            };
            formats.into_iter().try_for_each(join)
        })?;
        // None is ready before most of the controllers are there.
        cluster.iter_mut().try_for_each(Self::launch)?;
        cluster.iter_mut().try_for_each(Self::wait_until_ready)?;
        Ok(cluster)
    }

    /// Prepares the data folder.
    fn format(&self, cluster: &str, brokers: usize, options: &Options) -> Result<()> {
        let settings = self.settings().display().to_string();
        let mut arguments = vec!["format", "-t", cluster, "-c", &settings];
        if brokers == 1 {
            arguments.push("--standalone");
        }
        let scram = options.scram();
        arguments.extend(scram.iter().map(String::as_str));
        tool(&self.jars, "kafka.tools.StorageTool", &arguments)
            .context("cannot prepare Kafka's data folder")?;
        Ok(())
    }

    fn settings(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    /// `host:port` of the plain listener, the same for all its life.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.broker)
    }

    /// `host:port` of one of the options' listeners.
    pub fn listener(&self, name: &str) -> Option<String> {
        let at = self.listeners.iter().position(|listener| listener == name)?;
        Some(format!("127.0.0.1:{}", self.ports.more.get(at)?))
    }

    /// The process's id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.java.id())
    }

    /// Whether the process has ended without being told to, as one does whose disk is full. It counts as killed then.
    pub fn has_ended(&mut self) -> Result<bool> {
        if let Some(running) = &mut self.running
            && running.java.try_wait()?.is_some()
        {
            self.running = None;
        }
        Ok(self.running.is_none())
    }

    /// `kill -9`; its data stays. Does nothing when it is down.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(Running { _watchdog, mut java }) = self.running.take() {
            drop(_watchdog);
            java.kill().context("cannot kill Kafka")?;
            java.wait().context("cannot wait for Kafka's end")?;
        }
        Ok(())
    }

    /// Starts it again, on the same ports and data. Returns when it accepts connections; does nothing while it runs.
    pub fn resume(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts the process again without waiting for it: one of a cluster is not ready before others are there. Does
    /// nothing while it runs.
    pub fn launch(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut java = Command::new("java");
        java.args(&self.machine)
            .arg(format!("-Dlog4j2.configurationFile={}", self.folder.join("log4j2.properties").display()))
            .args(["-cp", &class_path(&self.jars), "kafka.Kafka"])
            .arg(self.settings())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for us; the watchdog ends it when we are gone.
            .process_group(0);
        let java = java.spawn().context("cannot start `java`")?;
        let watchdog = Watchdog::over(java.id(), &self.folder)?;
        self.running = Some(Running { _watchdog: watchdog, java });
        Ok(())
    }

    /// Waits until a process that was launched accepts connections.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        // The listener opens when the broker is registered and has caught up with its metadata.
        while TcpStream::connect(("127.0.0.1", self.ports.broker)).is_err() {
            let ended = match &mut self.running {
                Some(running) => running.java.try_wait()?,
                None => bail!("Kafka is not running"),
            };
            if let Some(status) = ended {
                self.running = None;
                bail!("Kafka ended while starting ({status}); the end of its log:\n{}", self.log_tail());
            }
            if start.elapsed() > START_TIMEOUT {
                bail!(
                    "Kafka was not ready after {START_TIMEOUT:?}; the end of its log:\n{}",
                    self.log_tail()
                );
            }
            // There is nothing to wait on but the port.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("kafka.log")
    }

    /// The last lines of the broker's own log.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // A destructor can tell nobody; what is left behind is a temporary folder.
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs one of Kafka's own tools, by the name of its class, and returns what it printed.
pub fn tool(jars: &Path, class: &str, arguments: &[&str]) -> Result<String> {
    let mut java = Command::new("java");
    // A tool runs for a second: the optimising compiler and a concurrent collector would never pay.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &class_path(jars), class])
        .args(arguments);
    output(&mut java)
}

fn class_path(jars: &Path) -> String {
    format!("{}/*", jars.display())
}
