//! A client's certificate that runs out while the flow runs: renewed in time, or not, or not valid from the beginning.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Access, Record, Secured, Space};
use loom_tests::tls::Validity;

/// A certificate in files of its own, and the way to a broker that asks for it.
struct Papers<'a> {
    secured: &'a Secured,
    files: Folder,
}

impl<'a> Papers<'a> {
    fn new(secured: &'a Secured, validity: Validity) -> Result<Self> {
        let papers = Papers { secured, files: Folder::new()? };
        papers.renew(validity)?;
        Ok(papers)
    }

    fn renew(&self, validity: Validity) -> Result<()> {
        let client = self.secured.client(validity)?;
        self.files.write("client.pem", &client.certificate)?;
        self.files.write("client.key", &client.key)?;
        Ok(())
    }

    fn certificate(&self) -> String {
        self.files.join("client.pem").display().to_string()
    }

    fn access(&self) -> Result<Access> {
        let access = self.secured.at("MUTUAL")?.secure("protocol", "SSL").trusting(&self.secured.authority());
        let key = self.files.join("client.key").display().to_string();
        Ok(access.extra("ssl.certificate.location", &self.certificate()).extra("ssl.key.location", &key))
    }
}

fn flow(access: &Access, group: &str, input: &str, output: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let access = access.keys();
    folder.write(
        "flow.yaml",
        format!(
            "name: papers\nkafka:\n  consumer: {{ {access}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
             auto_offset_reset: earliest }}\n  producer: {{ {access} }}\nprocess: [ {{ into_topic: {output} }} ]\n"
        ),
    )?;
    Ok(folder)
}

/// A host at work with a certificate that will run out.
struct Begun<'a> {
    papers: Papers<'a>,
    input: String,
    output: String,
    group: String,
    host: Host,
    /// When its certificate has run out.
    over: Instant,
    _folder: Folder,
}

impl<'a> Begun<'a> {
    /// Starts it and has it read ten records of each partition; none where the certificate ran out before that was done.
    fn start(
        secured: &'a Secured,
        space: &Space<'_>,
        name: &str,
        valid: Duration,
    ) -> Result<Option<Begun<'a>>> {
        let papers = Papers::new(secured, Validity::For(valid))?;
        let over = Instant::now() + valid;
        let (input, output) =
            (space.topic(&format!("{name}-in"), 4)?, space.topic(&format!("{name}-out"), 4)?);
        let group = space.group(name);
        let folder = flow(&papers.access()?, &group, &input, &output)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
        secured.broker.write(&input, records(0))?;
        let left = over.saturating_duration_since(Instant::now());
        match secured.broker.await_committed_within(&group, &input, &committed(10), left) {
            Ok(()) => Ok(Some(Begun { papers, input, output, group, host, over, _folder: folder })),
            Err(_) if Instant::now() >= over => Ok(None),
            Err(error) => bail!("{error:#}; the host logged:\n{}", host.log_text()),
        }
    }
}

fn records(from: i32) -> impl Iterator<Item = Record> {
    (from..from + 40).map(|n| Record::new(format!("{n}")).partition(n % 4))
}

fn committed(count: i64) -> Vec<(i32, i64)> {
    (0..4).map(|partition| (partition, count)).collect()
}

#[test]
fn a_certificate_renewed_in_time_is_used_when_the_old_one_is_refused_and_one_that_is_not_ends_the_host()
-> Result<()> {
    let Some(secured) = Secured::start(1)? else { return Ok(()) };
    let broker = &secured.broker;
    let space = broker.space();
    // A busy machine may not get two hosts to work while the shorter ones are valid.
    let (renewed, kept) = [25, 60, 120]
        .into_iter()
        .find_map(|seconds| {
            let valid = Duration::from_secs(seconds);
            let start = |name: &str| Begun::start(&secured, &space, &format!("{name}-{seconds}"), valid);
            let pair = || anyhow::Ok(start("renewed")?.zip(start("kept")?));
            pair().transpose()
        })
        .context("this machine is too slow for a certificate of two minutes")??;
    let warned = renewed.host.log().iter().any(|line| line.message().contains("less than a day"));
    ensure!(warned, "nobody warns of a certificate that ends so soon:\n{}", renewed.host.log_text());

    renewed.papers.renew(Validity::Now)?;
    // The old ones have to run out, which nothing announces; every connection is dropped after that.
    let over = kept.over.max(renewed.over) + Duration::from_secs(1);
    std::thread::sleep(over.saturating_duration_since(Instant::now()));
    broker.kill()?;
    broker.resume()?;
    broker.write(&renewed.input, records(40))?;

    // Brokers refuse the old one now, and new clients read the new one.
    let begun = Instant::now();
    if let Err(error) = broker.await_committed(&renewed.group, &renewed.input, &committed(20)) {
        bail!("{error:#}\nThe host with the new certificate logged:\n{}", renewed.host.log_text());
    }
    println!("went on with the new certificate after {:.1?}", begun.elapsed());
    let ended = renewed.host.stop()?;
    ended.expect_status(0)?;
    let stopped = ended.stopped()?;
    stopped.balances()?;
    ensure!(stopped.counter("restarts") == 1, "it began anew more than once:\n{}", ended.log_text());
    let mut texts: Vec<i32> =
        broker.read_all(&renewed.output)?.iter().filter_map(|row| row.text().parse().ok()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts, (0..80).collect::<Vec<_>>());
    let log = ended.log_text();
    ensure!(log.contains("begins anew") && log.contains("certificate"), "{log}");

    // The other host's file is as it was.
    let ended = kept.host.wait()?;
    ended.expect_status(4)?;
    ended.stopped()?.balances()?;
    let errors: Vec<&str> =
        ended.log.iter().filter(|line| line.level() == "ERROR").map(|line| &*line.text).collect();
    let certificate = kept.papers.certificate();
    let told = errors.iter().any(|line| line.contains(&certificate) && line.contains("expired on"));
    ensure!(told, "no error names the certificate's file and its end:\n{}", ended.log_text());
    Ok(())
}

#[test]
fn a_certificate_that_has_expired_before_the_start_ends_it_with_the_file_named() -> Result<()> {
    let Some(secured) = super::security::secured()? else { return Ok(()) };
    let papers = Papers::new(secured, Validity::Expired)?;
    let space = secured.broker.space();
    let words = [papers.certificate(), "ssl.certificate.location".to_owned(), "expired on".to_owned()];
    super::security::fails(&space, &papers.access()?, &words.each_ref().map(String::as_str))
}
