//! `plugins`: components, their configuration, bounds and grants.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::cx::Cx;
use super::fields::{Field, Fields, items, named};
use super::hosts::allowed_host;
use super::values::{Text, duration, name, size, text, word};
use crate::grammar;
use crate::interpolate::{has_reference, is_name};
use crate::issue::Code;
use crate::plan::{Allow, AllowedDir, PluginLimits, Secret};
use crate::reader::{to_json, zero_led};
use crate::report::{Place, Problem};

/// One plugin as declared.
#[derive(Debug)]
pub(crate) struct PluginSpec {
    pub(crate) name: String,
    /// Its key under `plugins`.
    pub(crate) place: Place,
    /// The component's file; none if it was not given or cannot be known.
    pub(crate) component: Option<ComponentSpec>,
    pub(crate) digest: Option<String>,
    pub(crate) config: Value,
    /// The configuration with its references as written.
    pub(crate) config_written: Value,
    pub(crate) limits: PluginLimits,
    pub(crate) breaker: bool,
    pub(crate) allow: Allow,
}

#[derive(Debug)]
pub(crate) struct ComponentSpec {
    pub(crate) path: PathBuf,
    pub(crate) text: Text,
}

pub(crate) fn plugins(cx: &mut Cx<'_>, field: &Field<'_>) -> Vec<PluginSpec> {
    named(cx, field).into_iter().flatten().filter_map(|field| plugin(cx, &field)).collect()
}

fn plugin(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<PluginSpec> {
    let mut fields = Fields::of(cx, field)?;
    let component = fields.need(cx, "component").and_then(|field| component(cx, &field));
    let digest = fields.take("digest").and_then(|field| digest(cx, &field));
    let (config, config_written) =
        fields.take("config").map_or_else(empty_config, |field| config(cx, &field));
    let limits = fields.take("limits").map(|field| limits(cx, &field)).unwrap_or_default();
    let breaker = fields.take("breaker").and_then(|field| word(cx, &field, &[("on", true), ("off", false)]));
    let spec = PluginSpec {
        name: field.key.to_owned(),
        place: field.key_place(),
        component,
        digest,
        config,
        config_written,
        limits,
        breaker: breaker.is_none_or(|at| at.value),
        allow: fields.take("allow").map(|field| allow(cx, &field)).unwrap_or_default(),
    };
    let what = format!("`{}`", field.path);
    fields.finish(cx, &what);
    Some(spec)
}

fn component(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<ComponentSpec> {
    let text = name(cx, field)?;
    if text.value.starts_with("oci://") {
        cx.not_available(&text.place, "a component from a registry");
        return None;
    }
    Some(ComponentSpec { path: cx.dir.join(&text.value), text })
}

fn digest(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<String> {
    let text = text(cx, field).filter(|text| !text.open)?;
    let hex = text.value.strip_prefix("sha256:").map(str::to_ascii_lowercase);
    match hex {
        Some(hex) if hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => Some(hex),
        _ => {
            let message = format!("`digest` takes `sha256:` and 64 hexadecimal digits, not `{}`", text.shown);
            cx.error(&text.place, Code::ValueInvalid, message);
            None
        }
    }
}

fn empty_config() -> (Value, Value) {
    (Value::Null, Value::Null)
}

/// The configuration, resolved and as written.
fn config(cx: &mut Cx<'_>, field: &Field<'_>) -> (Value, Value) {
    let mut faults = Vec::new();
    field.expect(|value| matches!(value, grammar::Value::Any));
    let path = field.path.clone();
    let resolved = to_json(
        field.node,
        &mut |scalar, span| {
            let place = Place { span, path: path.clone() };
            if zero_led(scalar) {
                let message = format!("`{}` starts with a zero, so the plugin gets it as text", scalar.text);
                let problem = Problem::warning(Code::ValueInvalid, message).hint(format!(
                    "write `\"{}\"` for the text, or the number without its zeros",
                    scalar.text
                ));
                cx.push(&place, problem);
            }
            cx.resolve_config(&place, &scalar.text)
        },
        &mut faults,
    );
    for fault in faults.drain(..) {
        cx.report.push_at(fault.span, &field.path, Problem::error(Code::ValueInvalid, fault.message));
    }
    let written = to_json(
        field.node,
        &mut |scalar, _| has_reference(&scalar.text).then(|| scalar.text.clone()),
        &mut faults,
    );
    (resolved, written)
}

fn limits(cx: &mut Cx<'_>, field: &Field<'_>) -> PluginLimits {
    let Some(mut fields) = Fields::of(cx, field) else { return PluginLimits::default() };
    let limits = PluginLimits {
        memory: fields.take("memory").and_then(|field| size(cx, &field)),
        timeout: fields.take("timeout").and_then(|field| duration(cx, &field)),
        lifecycle: fields.take("lifecycle").and_then(|field| duration(cx, &field)),
        output: fields.take("output").and_then(|field| size(cx, &field)),
        log: fields.take("log").and_then(|field| size(cx, &field)),
    };
    let what = format!("`{}`", field.path);
    fields.finish(cx, &what);
    limits
}

fn allow(cx: &mut Cx<'_>, field: &Field<'_>) -> Allow {
    let Some(mut fields) = Fields::of(cx, field) else { return Allow::default() };
    let mut allow = Allow::default();
    if let Some(list) = fields.take("env").and_then(|field| items(cx, &field, "variable names")) {
        allow.env = list.iter().filter_map(|item| granted_variable(cx, item)).collect();
    }
    if let Some(list) = fields.take("http").and_then(|field| items(cx, &field, "hosts with ports")) {
        allow.http = list.iter().filter_map(|item| allowed_host(cx, item)).collect();
    }
    if let Some(field) = fields.take("tcp")
        && let Some(list) = items(cx, &field, "hosts with ports")
    {
        let hosts: Vec<_> = list.iter().filter_map(|item| allowed_host(cx, item)).collect();
        if !hosts.is_empty() {
            cx.not_available(&field.key_place(), "`allow.tcp`");
        }
    }
    if let Some(list) = fields.take("dirs").and_then(|field| items(cx, &field, "folders")) {
        let mut seen = BTreeSet::new();
        for item in &list {
            let Some((dir, place)) = dir(cx, item) else { continue };
            if !seen.insert(dir.guest.clone()) {
                let message =
                    format!("`{}` is granted twice; the plugin sees one folder at a path", dir.guest);
                cx.error(&place, Code::ValueInvalid, message);
            }
            allow.dirs.push(dir);
        }
    }
    let what = format!("`{}`", field.path);
    fields.finish(cx, &what);
    allow
}

/// A variable that is granted by name. One that is not set is not passed on, and said.
fn granted_variable(cx: &mut Cx<'_>, item: &Field<'_>) -> Option<(String, Secret)> {
    let text = name(cx, item).filter(|text| !text.open)?;
    if !is_name(&text.value) {
        let message = format!("`{}` is no name of a variable", text.shown);
        cx.error(&text.place, Code::ValueInvalid, message);
        return None;
    }
    let Some(value) = cx.env.var(&text.value) else {
        let message = format!("the variable `{}` is not set, so the plugin will not see it", text.shown);
        cx.push(&text.place, Problem::warning(Code::VariableUnset, message));
        return None;
    };
    cx.keep_secret(&value);
    Some((text.value, Secret(value)))
}

/// A granted folder, and where its path in the plugin stands.
fn dir(cx: &mut Cx<'_>, item: &Field<'_>) -> Option<(AllowedDir, Place)> {
    let mut fields = Fields::of(cx, item)?;
    let host = fields.need(cx, "host").and_then(|field| name(cx, &field));
    let guest = fields.need(cx, "guest").and_then(|field| name(cx, &field));
    let mode = fields.take("mode").map(|field| word(cx, &field, &[("ro", false), ("rw", true)]));
    fields.finish(cx, "a granted folder");
    let (host, guest) = (host?, guest?);
    if !guest.open && !guest.value.starts_with('/') {
        let message = format!(
            "`{}` is no absolute path; the plugin sees the folder at a path such as `/data`",
            guest.shown
        );
        cx.error(&guest.place, Code::ValueInvalid, message);
    }
    let dir = AllowedDir {
        host: cx.dir.join(host.value),
        guest: guest.value,
        writable: mode.flatten().is_some_and(|at| at.value),
    };
    Some((dir, guest.place))
}
