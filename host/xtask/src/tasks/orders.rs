//! `cargo xtask orders`: the example's input, made by rule, so that it can be made again and a change to it is seen.
//!
//! Invariant: the same text on every machine; a test compares it with the file that is kept in the repository.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use xtask::programs::write_if_changed;
use xtask::root;

/// How many lines the file has.
const ORDERS: usize = 400;

/// Writes `plugins-example/orders/orders.jsonl`.
pub fn orders() -> Result<ExitCode> {
    let path = root().join("plugins-example/orders/orders.jsonl");
    let written = write_if_changed(&path, generate().as_bytes())?;
    eprintln!("{} {}", path.display(), if written { "written" } else { "is as it should be" });
    Ok(ExitCode::SUCCESS)
}

/// The whole file: good orders, and among them every kind that a flow must cope with.
fn generate() -> String {
    let mut dice = Dice(0x5eed);
    let mut text = String::new();
    for number in 0..ORDERS {
        match number {
            // Empty: a record of no bytes at all.
            60 | 233 => {}
            // Unreadable.
            17 => text.push_str("{\"id\":\"o-10017\",\"customer\":\"c-3\",\"lines\":[{\"sku\":"),
            118 => text.push_str("this is not an order"),
            119 => text.push_str("\u{feff}{}"),
            301 => text.push_str("[1,2,3]"),
            // Readable, and refused: no lines, an odd currency, no customer.
            25 | 150 | 275 => order(&mut text, number, &mut dice, 0, "EUR"),
            77 | 290 => order(&mut text, number, &mut dice, 2, "EURO"),
            160 => text.push_str("{\"id\":\"o-10160\",\"currency\":\"EUR\",\"lines\":[]}"),
            // Large: two of some 60 kB, and one of about 900 kB, close to what a broker takes by default.
            99 | 199 => order(&mut text, number, &mut dice, 1_200, "EUR"),
            299 => order(&mut text, number, &mut dice, 21_400, "CHF"),
            _ => {
                let lines = 1 + dice.roll(4);
                let currency = ["eur", "EUR", "usd", "gbp", ""][dice.roll(5)];
                order(&mut text, number, &mut dice, lines, currency);
            }
        }
        text.push('\n');
    }
    text
}

fn order(text: &mut String, number: usize, dice: &mut Dice, lines: usize, currency: &str) {
    let tier = ["standard", "standard", "standard", "silver", "gold", "platinum"][dice.roll(6)];
    let customer = dice.roll(40);
    let mut add =
        |part: std::fmt::Arguments| text.write_fmt(part).unwrap_or_else(|_| unreachable!("text grows"));
    add(format_args!("{{\"id\":\"o-{}\",\"customer\":\"c-{customer}\",\"tier\":\"{tier}\"", 10_000 + number));
    if !currency.is_empty() {
        add(format_args!(",\"currency\":\"{currency}\""));
    }
    add(format_args!(",\"lines\":["));
    for line in 0..lines {
        let comma = if line == 0 { "" } else { "," };
        let (sku, quantity) = (dice.roll(90), 1 + dice.roll(6));
        let range = if dice.roll(8) == 0 { 60_000 } else { 5_000 };
        let cents = 99 + dice.roll(range);
        let price = format!("{}.{:02}", cents / 100, cents % 100);
        add(format_args!("{comma}{{\"sku\":\"A-{sku:02}\",\"quantity\":{quantity},\"price\":{price}}}"));
    }
    add(format_args!("]}}"));
}

/// A small generator of our own, so that no library's change of algorithm changes the file.
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[cfg(test)]
mod tests {
    use super::{ORDERS, generate};

    #[test]
    fn the_kept_file_is_the_generated_one() {
        let kept = include_str!("../../../../plugins-example/orders/orders.jsonl");
        assert!(kept == generate(), "run `cargo xtask orders`");
    }

    #[test]
    fn every_kind_is_there() {
        let text = generate();
        let lines: Vec<&str> = text.lines().collect();
        let parsed = || lines.iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        assert_eq!(lines.len(), ORDERS);
        assert!(lines.iter().any(|line| line.is_empty()));
        assert!(
            lines
                .iter()
                .any(|line| !line.is_empty() && serde_json::from_str::<serde_json::Value>(line).is_err())
        );
        assert!(parsed().any(|order| order["lines"].as_array().is_some_and(Vec::is_empty)));
        let longest = lines.iter().map(|line| line.len()).max().unwrap_or_default();
        assert!((850_000..1_000_000).contains(&longest), "the largest order has {longest} bytes");
        assert!(text.len() < 2_000_000);
    }
}
