//! One order in, one order out: decoded into types, changed, encoded. The bench compiles this very file natively.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order<'a> {
    #[serde(borrow)]
    id: &'a str,
    #[serde(borrow)]
    customer: &'a str,
    #[serde(borrow)]
    currency: &'a str,
    #[serde(borrow)]
    lines: Vec<Line<'a>>,
    #[serde(default)]
    total: f64,
    #[serde(default)]
    vip: bool,
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    sku: &'a str,
    quantity: u32,
    price: f64,
}

/// Appends the order, with its total and its standing, to `out`.
pub fn transform(order: &[u8], out: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut order: Order = serde_json::from_slice(order)?;
    order.total = order.lines.iter().map(|line| line.price * f64::from(line.quantity)).sum();
    order.vip = order.total > 1000.0;
    serde_json::to_writer(out, &order)
}
