//! A drawing as a Mermaid flowchart.
//!
//! Every text stands in quotes. What Mermaid or the HTML that it makes would read in one is written as an entity code.

use super::drawing::{Arrow, Drawing, End, Shape, Vertex};

pub(super) fn mermaid(drawing: &Drawing) -> String {
    let mut out = String::from("flowchart TD\n");
    for group in &drawing.groups {
        out += &format!("  subgraph {}[{}]\n", group.id, quoted(&group.title));
        for id in &group.vertices {
            out += &format!("    {}\n", vertex(*id, &drawing.vertices[*id]));
        }
        out += "  end\n";
    }
    for Arrow { from, to, label, error } in &drawing.arrows {
        let end = |end: &End| match end {
            End::Vertex(id) => format!("n{id}"),
            End::Group(index) => drawing.groups[*index].id.clone(),
        };
        let line = if *error { "-.->" } else { "-->" };
        let label = label.as_ref().map(|label| format!("|{}|", quoted(label))).unwrap_or_default();
        out += &format!("  {} {line}{label} {}\n", end(from), end(to));
    }
    out
}

fn vertex(id: usize, vertex: &Vertex) -> String {
    let lines: Vec<String> = vertex.lines.iter().map(|line| escaped(line)).collect();
    let text = format!("\"{}\"", lines.join("<br/>"));
    let (open, close) = match vertex.shape {
        Shape::Topic => ("[(", ")]"),
        Shape::Plugin => ("[", "]"),
        Shape::Expression => ("([", "])"),
        Shape::Batches => ("[/", "\\]"),
        Shape::Switch => ("{", "}"),
        Shape::Sink => ("[[", "]]"),
        Shape::End => ("((", "))"),
    };
    format!("n{id}{open}{text}{close}")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// A text without what Mermaid reads in it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '#' | '&' | '<' | '>' | '`' | '\\' | '%' | '|' => {
                out += &format!("#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}
