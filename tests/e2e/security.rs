//! TLS and passwords against a real Kafka: what works, and what a wrong setting looks like.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use loom_tests::host::{Ended, Folder, Host};
use loom_tests::kafka::{Access, PASSWORD, Record, Secured, Space, USER, skip};
use loom_tests::tls::Validity;

/// A broker with protected listeners that the tests here share.
pub(super) fn secured() -> Result<Option<&'static Secured>> {
    static SECURED: OnceLock<Result<Option<Secured>, String>> = OnceLock::new();
    match SECURED.get_or_init(|| Secured::start(1).map_err(|error| format!("{error:#}"))) {
        Ok(secured) => Ok(secured.as_ref()),
        Err(error) => bail!("no broker: {error}"),
    }
}

/// How long a start may take here.
const STARTUP: Duration = Duration::from_secs(5);

/// A flow that passes everything on, with the same access on both sides.
fn flow(access: &Access, group: &str, input: &str, output: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let access = access.keys();
    folder.write(
        "flow.yaml",
        format!(
            "name: safe\nkafka:\n  consumer: {{ {access}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
             auto_offset_reset: earliest }}\n  producer: {{ {access} }}\n\
             runtime: {{ startup_timeout: {}s }}\nprocess: [ {{ into_topic: {output} }} ]\n",
            STARTUP.as_secs()
        ),
    )?;
    Ok(folder)
}

/// Runs the flow with this access until three records are through and committed. Returns its folder.
fn passes(space: &Space<'_>, access: &Access, change: impl FnOnce(&mut Command)) -> Result<Folder> {
    let broker = space.broker();
    let (name, group) = (format!("{:?}", Instant::now()), space.name("g"));
    let name: String = name.chars().filter(char::is_ascii_digit).collect();
    let (input, output) = (space.topic(&format!("in{name}"), 1)?, space.topic(&format!("out{name}"), 1)?);
    broker.write(&input, ["a", "b", "c"].map(Record::new))?;
    let folder = flow(access, &space.group(&format!("{group}{name}")), &input, &output)?;
    let host = Host::start_with(folder.path(), ["run", "flow.yaml"], change)?;
    let rows = broker.reader(&output)?.take(3);
    let Ok(rows) = rows else { bail!("{rows:?}\n{}", host.log_text()) };
    assert_eq!(rows.iter().map(|row| row.text()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let ended = host.stop()?;
    ended.expect_status(0)?;
    let stopped = ended.stopped()?;
    stopped.balances()?;
    assert_eq!(stopped.ended("topic"), 3);
    Ok(folder)
}

/// Starts the host where the system's certificates are those of a slim image: this authority's, or none at all. That needs
/// a mount namespace; whether the machine gives one to its users is told by `can_have_a_system_of_its_own`.
fn with_system_certificates(command: &mut Command, authority: Option<&Path>) {
    const SCRIPT: &str = r#"
        for folder in /etc/ssl /etc/pki; do if [ -d "$folder" ]; then mount -t tmpfs none "$folder"; fi; done
        if [ -n "$AUTHORITY" ]; then mkdir -p /etc/ssl/certs && cp "$AUTHORITY" /etc/ssl/certs/ca-certificates.crt; fi
        exec "$@""#;
    let mut within = Command::new("unshare");
    within.args(["--map-root-user", "--mount", "sh", "-ec", SCRIPT, "sh"]).arg(command.get_program());
    within.args(command.get_args()).env("AUTHORITY", authority.unwrap_or(Path::new("")));
    if let Some(folder) = command.get_current_dir() {
        within.current_dir(folder);
    }
    within.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    *command = within;
}

fn can_have_a_system_of_its_own() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/etc/ssl"]);
    let can = probe.output().is_ok_and(|output| output.status.success());
    if !can {
        skip("this system gives its users no mount namespace (`unshare --map-root-user --mount`)");
    }
    can
}

/// Runs the flow with an access that cannot work: status 4, in time, and one error that holds these words.
pub(super) fn fails(space: &Space<'_>, access: &Access, words: &[&str]) -> Result<()> {
    fails_as(space, access, |_| (), words)
}

fn fails_as(
    space: &Space<'_>,
    access: &Access,
    change: impl FnOnce(&mut Command),
    words: &[&str],
) -> Result<()> {
    let folder = flow(access, &space.name("g"), &space.name("in"), &space.name("out"))?;
    // Where it is not built yet, that is not its start.
    loom_tests::host::binary()?;
    let begun = Instant::now();
    let ended = Host::start_with(folder.path(), ["run", "flow.yaml"], change)?.wait()?;
    let took = begun.elapsed();
    ended.expect_status(4)?;
    ensure!(took < STARTUP + Duration::from_secs(3), "it took {took:?}:\n{}", ended.log_text());
    one_error(&ended, words)
}

fn one_error(ended: &Ended, words: &[&str]) -> Result<()> {
    let log = ended.log_text();
    let errors = ended.logged(|line| line.level() == "ERROR");
    let [error] = errors.as_slice() else { bail!("{} errors were logged, not one:\n{log}", errors.len()) };
    for word in words {
        ensure!(
            error.text.contains(word),
            "{word:?} is not in the error:\n{}\nall of the log:\n{log}",
            error.text
        );
    }
    ensure!(!log.contains(PASSWORD), "the password is in the log:\n{log}");
    Ok(())
}

#[test]
fn tls_and_each_scram_mechanism_work_on_both_sides_and_for_offsets() -> Result<()> {
    let Some(secured) = secured()? else { return Ok(()) };
    let space = secured.broker.space();
    secured.allow(&space.name(""))?;
    let ca = secured.authority();
    passes(&space, &secured.at("TLS")?.secure("protocol", "SSL").trusting(&ca), |_| ())?;
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let open = secured.at("OPEN")?.user("SASL_PLAINTEXT", mechanism, USER, PASSWORD);
        passes(&space, &open, |_| ())?;
        let safe = secured.at("SASL")?.user("SASL_SSL", mechanism, USER, PASSWORD).trusting(&ca);
        let folder = passes(&space, &safe, |_| ())?;
        // The commands that ask the broker without a running flow come in as the flow does.
        let shown = Host::run(folder.path(), ["offsets", "flow.yaml", "--format", "json"])?;
        shown.expect_status(0)?;
        let text: String = shown.output.iter().map(|line| line.text.as_str()).collect();
        let shown: serde_json::Value = serde_json::from_str(&text)?;
        ensure!(shown["partitions"][0]["committed"] == 3 && shown["partitions"][0]["lag"] == 0, "{shown:#}");
    }
    Ok(())
}

#[test]
fn a_client_certificate_works() -> Result<()> {
    let Some(secured) = secured()? else { return Ok(()) };
    let space = secured.broker.space();
    let (files, client) = (Folder::new()?, secured.client(Validity::Now)?);
    let certificate = files.write("client.pem", &client.certificate)?;
    let key = files.write("client.key", &client.key)?;
    let access = secured.at("MUTUAL")?.secure("protocol", "SSL").trusting(&secured.authority());
    let access = access
        .extra("ssl.certificate.location", &certificate.display().to_string())
        .extra("ssl.key.location", &key.display().to_string());
    passes(&space, &access, |_| ()).map(drop)
}

#[test]
fn a_wrong_password_user_or_mechanism_is_told_at_once() -> Result<()> {
    let Some(secured) = secured()? else { return Ok(()) };
    let space = secured.broker.space();
    let at = || Ok::<_, anyhow::Error>(secured.at("SASL")?.trusting(&secured.authority()));
    let refused = ["authentication", "SASL"];
    let wrong = at()?.user("SASL_SSL", "SCRAM-SHA-512", USER, "wrong");
    let folder = flow(&wrong, &space.name("g"), &space.name("in"), &space.name("out"))?;
    let shown = Host::run(folder.path(), ["offsets", "flow.yaml"])?;
    shown.expect_status(4)?;
    // A verb that answers once has its one error printed for people, with its place in the flow.
    let printed = shown.log_text();
    ensure!(printed.matches("error[").count() == 1 && !printed.contains("\"wrong\""), "{printed}");
    ensure!(refused.iter().all(|word| printed.contains(word)), "{printed}");
    fails(&space, &at()?.user("SASL_SSL", "SCRAM-SHA-512", USER, "wrong"), &refused)?;
    fails(&space, &at()?.user("SASL_SSL", "SCRAM-SHA-512", "nobody", PASSWORD), &refused)?;
    fails(&space, &at()?.user("SASL_SSL", "PLAIN", USER, PASSWORD), &["PLAIN", "SCRAM-SHA-512"])
}

#[test]
fn a_certificate_that_cannot_be_checked_or_has_expired_is_told() -> Result<()> {
    let Some(secured) = secured()? else { return Ok(()) };
    let space = secured.broker.space();
    let tls = |name| Ok::<_, anyhow::Error>(secured.at(name)?.secure("protocol", "SSL"));
    fails(&space, &tls("TLS")?.trusting(&secured.other_authority()), &["certificate", "ssl.ca.location"])?;
    // The system's authorities did not sign it.
    fails(&space, &tls("TLS")?, &["certificate", "ssl.ca.location"])?;
    fails(&space, &tls("EXPIRED")?.trusting(&secured.authority()), &["expired"])?;
    // The broker wants one of the client's, too.
    fails(&space, &tls("MUTUAL")?.trusting(&secured.authority()), &["certificate"])
}

#[test]
fn a_protocol_that_the_port_does_not_speak_is_told() -> Result<()> {
    let Some(secured) = secured()? else { return Ok(()) };
    let space = secured.broker.space();
    let ca = secured.authority();
    fails(&space, &secured.at("TLS")?, &["security.protocol"])?;
    fails(&space, &secured.at("SASL")?, &["security.protocol"])?;
    let plain = Access::plain(&secured.broker);
    fails(&space, &plain.clone().secure("protocol", "SSL").trusting(&ca), &["PLAINTEXT broker listener"])?;
    fails(&space, &plain.user("SASL_PLAINTEXT", "SCRAM-SHA-512", USER, PASSWORD), &["SASL"])
}

#[test]
fn the_systems_certificates_are_found_and_a_system_without_any_is_told() -> Result<()> {
    let Some(secured) = secured()? else { return Ok(()) };
    if !can_have_a_system_of_its_own() {
        return Ok(());
    }
    let space = secured.broker.space();
    // Nothing but the protocol is set.
    let access = secured.at("TLS")?.secure("protocol", "SSL");
    passes(&space, &access, |command| with_system_certificates(command, Some(&secured.authority())))?;
    fails_as(&space, &access, |command| with_system_certificates(command, None), &["ssl.ca.location"])
}

#[test]
fn a_group_that_may_no_longer_be_used_ends_the_host_after_a_minute_and_the_next_one_goes_on() -> Result<()> {
    let Some(secured) = secured()? else { return Ok(()) };
    let space = secured.broker.space();
    let broker = space.broker();
    let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
    secured.allow(&space.name(""))?;
    let folder = flow(&secured.safely()?, &group, &input, &output)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.write(&input, [Record::new("before")])?;
    broker.await_committed(&group, &input, &[(0, 1)])?;

    secured.deny("Read", "group", &group)?;
    broker.write(&input, [Record::new("without")])?;
    let ended = host.wait_within(Duration::from_secs(120));
    secured.permit("Read", "group", &group)?;
    let ended = ended?;
    ended.expect_status(4)?;
    ended.stopped()?.balances()?;
    let log = ended.log_text();
    ensure!(log.contains("GROUP_AUTHORIZATION_FAILED"), "the log does not say why:\n{log}");

    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.write(&input, [Record::new("after")])?;
    broker.await_committed(&group, &input, &[(0, 3)])?;
    host.stop()?.expect_status(0)?;
    // What could not be committed comes again.
    let texts: Vec<String> = broker.read_all(&output)?.iter().map(|row| row.text()).collect();
    assert_eq!(texts, ["before", "without", "without", "after"]);
    Ok(())
}
