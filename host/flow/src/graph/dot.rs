//! A drawing as a Graphviz digraph.
//!
//! Every text is a quoted string. An arrow to or from a whole group runs to one of its boxes and is cut at the group's
//! border (`compound`), since DOT joins boxes only.

use super::drawing::{Arrow, Drawing, End, Shape, Vertex};

pub(super) fn dot(drawing: &Drawing, name: &str) -> String {
    let mut out = format!("digraph {} {{\n", quoted(name));
    out += "  compound=true;\n  node [fontname=\"Helvetica\"];\n  edge [fontname=\"Helvetica\"];\n";
    for group in &drawing.groups {
        out += &format!("  subgraph cluster_{} {{\n    label={};\n", group.id, quoted(&group.title));
        for id in &group.vertices {
            out += &format!("    {}\n", vertex(*id, &drawing.vertices[*id]));
        }
        out += "  }\n";
    }
    for Arrow { from, to, label, error } in &drawing.arrows {
        let mut attributes = Vec::new();
        attributes.extend(label.as_ref().map(|label| format!("label={}", quoted(label))));
        if *error {
            attributes.push("style=dashed".to_owned());
        }
        let mut end = |end: &End, clip: &str| match end {
            End::Vertex(id) => *id,
            End::Group(index) => {
                let group = &drawing.groups[*index];
                attributes.push(format!("{clip}=cluster_{}", group.id));
                // A group has a box: a process without nodes has its drain.
                group.vertices.first().copied().unwrap_or_default()
            }
        };
        let (from, to) = (end(from, "ltail"), end(to, "lhead"));
        let attributes =
            if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        out += &format!("  n{from} -> n{to}{attributes};\n");
    }
    out + "}\n"
}

fn vertex(id: usize, vertex: &Vertex) -> String {
    let shape = match vertex.shape {
        Shape::Topic => "cylinder",
        Shape::Plugin => "component",
        Shape::Expression => "box",
        Shape::Batches => "trapezium",
        Shape::Switch => "diamond",
        Shape::Sink => "box3d",
        Shape::End => "circle",
    };
    let lines: Vec<String> = vertex.lines.iter().map(|line| escaped(line)).collect();
    format!("n{id} [label=\"{}\", shape={shape}];", lines.join("\\n"))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// A text inside of quotes: a backslash there starts an escape.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
