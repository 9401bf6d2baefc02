//! Two lists held against each other: which of one belongs to which of the other, in their order or in any.

use std::collections::{BTreeMap, BTreeSet};

/// Lists up to this long (one times the other) are aligned; longer ones are compared place by place.
const ALIGNED: usize = 1_000_000;

/// What is at a place of two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The expected one and the actual one belong together, though they may differ.
    Pair(usize, usize),
    /// The expected one is there as it should be, at another place of the list.
    Moved(usize, usize),
    /// The expected one is not there.
    Missing(usize),
    /// The actual one was not expected.
    Extra(usize),
}

/// Lists in their order: what fits is kept together, what is there at another place is told so, and what differs between
/// is paired.
pub fn in_order(expected: usize, actual: usize, fits: impl Fn(usize, usize) -> bool) -> Vec<Step> {
    let aligns = expected.saturating_mul(actual) <= ALIGNED;
    let kept = if aligns {
        longest(expected, actual, &fits)
    } else {
        (0..expected.min(actual)).map(|at| (at, at)).collect()
    };
    let moved = if aligns { elsewhere(expected, actual, &kept, &fits) } else { BTreeMap::new() };
    let came: BTreeSet<usize> = moved.values().copied().collect();
    let mut steps: Vec<Step> = Vec::new();
    let (mut from_wanted, mut from_is) = (0, 0);
    for (to_wanted, to_is) in kept.into_iter().chain([(expected, actual)]) {
        let gap = from_wanted..to_wanted;
        steps.extend(gap.clone().filter_map(|wanted| Some(Step::Moved(wanted, *moved.get(&wanted)?))));
        let mut wanted = gap.filter(|wanted| !moved.contains_key(wanted));
        let mut is = (from_is..to_is).filter(|is| !came.contains(is));
        loop {
            match (wanted.next(), is.next()) {
                (Some(wanted), Some(is)) => steps.push(Step::Pair(wanted, is)),
                (Some(wanted), None) => steps.push(Step::Missing(wanted)),
                (None, Some(is)) => steps.push(Step::Extra(is)),
                (None, None) => break,
            }
        }
        if to_wanted < expected {
            steps.push(Step::Pair(to_wanted, to_is));
        }
        (from_wanted, from_is) = (to_wanted + 1, to_is + 1);
    }
    steps
}

/// Of what is not kept in its order: expected ones that are there at another place, with that place.
fn elsewhere(
    expected: usize,
    actual: usize,
    kept: &[(usize, usize)],
    fits: &impl Fn(usize, usize) -> bool,
) -> BTreeMap<usize, usize> {
    let (in_place, taken): (BTreeSet<usize>, BTreeSet<usize>) = kept.iter().copied().unzip();
    let wanted: Vec<usize> = (0..expected).filter(|wanted| !in_place.contains(wanted)).collect();
    let is: Vec<usize> = (0..actual).filter(|is| !taken.contains(is)).collect();
    let steps = in_any_order(wanted.len(), is.len(), |one, other| fits(wanted[one], is[other]));
    let pairs = steps.into_iter().filter_map(|step| match step {
        Step::Pair(one, other) => Some((wanted[one], is[other])),
        _ => None,
    });
    pairs.collect()
}

/// The longest common subsequence, as pairs.
fn longest(expected: usize, actual: usize, fits: &impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let width = actual + 1;
    let mut length = vec![0_u32; (expected + 1) * width];
    let mut same = vec![false; expected * actual];
    for wanted in (0..expected).rev() {
        for is in (0..actual).rev() {
            let fit = fits(wanted, is);
            same[wanted * actual + is] = fit;
            length[wanted * width + is] = if fit {
                length[(wanted + 1) * width + is + 1] + 1
            } else {
                length[(wanted + 1) * width + is].max(length[wanted * width + is + 1])
            };
        }
    }
    let mut pairs = Vec::new();
    let (mut wanted, mut is) = (0, 0);
    while wanted < expected && is < actual {
        if same[wanted * actual + is] {
            pairs.push((wanted, is));
            (wanted, is) = (wanted + 1, is + 1);
        } else if length[(wanted + 1) * width + is] >= length[wanted * width + is + 1] {
            wanted += 1;
        } else {
            is += 1;
        }
    }
    pairs
}

/// Lists whose order says nothing: as many pairs as can be made, then what is left.
pub fn in_any_order(expected: usize, actual: usize, fits: impl Fn(usize, usize) -> bool) -> Vec<Step> {
    let fitting: Vec<Vec<usize>> =
        (0..expected).map(|wanted| (0..actual).filter(|is| fits(wanted, *is)).collect()).collect();
    let mut taken_by: Vec<Option<usize>> = vec![None; actual];
    for wanted in 0..expected {
        let mut tried = vec![false; actual];
        augment(wanted, &fitting, &mut taken_by, &mut tried);
    }
    let mut steps: Vec<Step> = Vec::new();
    for wanted in 0..expected {
        let is = taken_by.iter().position(|by| *by == Some(wanted));
        steps.push(is.map_or(Step::Missing(wanted), |is| Step::Pair(wanted, is)));
    }
    steps.extend((0..actual).filter(|is| taken_by[*is].is_none()).map(Step::Extra));
    steps
}

/// Finds a record for an expected one, and others for those that had it. A record that fits several is so given to the
/// one that nothing else fits.
fn augment(first: usize, fitting: &[Vec<usize>], taken_by: &mut [Option<usize>], tried: &mut [bool]) {
    // Breadth first, with the way back, so that no list is deep enough to overflow a stack.
    let mut came_from: Vec<Option<usize>> = vec![None; taken_by.len()];
    let mut queue = std::collections::VecDeque::from([first]);
    while let Some(wanted) = queue.pop_front() {
        for is in &fitting[wanted] {
            if std::mem::replace(&mut tried[*is], true) {
                continue;
            }
            came_from[*is] = Some(wanted);
            match taken_by[*is] {
                Some(other) => queue.push_back(other),
                None => {
                    let mut free = Some(*is);
                    while let Some(is) = free {
                        let Some(wanted) = came_from[is] else { return };
                        free = taken_by.iter().position(|by| *by == Some(wanted));
                        taken_by[is] = Some(wanted);
                    }
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{Extra, Missing, Moved, Pair};
    use super::{in_any_order, in_order};

    #[test]
    fn lists_are_aligned() {
        let of = |expected: &str, actual: &str| {
            let (one, other): (Vec<char>, Vec<char>) = (expected.chars().collect(), actual.chars().collect());
            in_order(one.len(), other.len(), |wanted, is| one[wanted] == other[is])
        };
        assert_eq!(of("abc", "abc"), [Pair(0, 0), Pair(1, 1), Pair(2, 2)]);
        assert_eq!(of("abc", "ac"), [Pair(0, 0), Missing(1), Pair(2, 1)]);
        assert_eq!(of("ac", "abc"), [Pair(0, 0), Extra(1), Pair(1, 2)]);
        assert_eq!(of("abc", "axc"), [Pair(0, 0), Pair(1, 1), Pair(2, 2)]);
        assert_eq!(of("", "a"), [Extra(0)]);
        assert_eq!(of("ab", ""), [Missing(0), Missing(1)]);
    }

    #[test]
    fn what_came_at_another_place_is_neither_missing_nor_unexpected() {
        let of = |expected: &str, actual: &str| {
            let (one, other): (Vec<char>, Vec<char>) = (expected.chars().collect(), actual.chars().collect());
            in_order(one.len(), other.len(), |wanted, is| one[wanted] == other[is])
        };
        assert_eq!(of("ab", "ba"), [Moved(0, 1), Pair(1, 0)]);
        assert_eq!(of("abcd", "bcda"), [Moved(0, 3), Pair(1, 0), Pair(2, 1), Pair(3, 2)]);
        assert_eq!(of("abx", "bay"), [Moved(0, 1), Pair(1, 0), Pair(2, 2)]);
        assert_eq!(of("aab", "ba"), [Moved(0, 1), Missing(1), Pair(2, 0)]);
    }

    #[test]
    fn without_order_a_record_that_fits_several_is_given_where_it_is_needed() {
        // The first expected one fits both, the second only the first of them.
        let fits = |wanted: usize, is: usize| wanted == 0 || is == 0;
        assert_eq!(in_any_order(2, 2, fits), [Pair(0, 1), Pair(1, 0)]);
        assert_eq!(in_any_order(2, 1, |_, _| true), [Pair(0, 0), Missing(1)]);
        assert_eq!(in_any_order(1, 2, |_, is| is == 1), [Pair(0, 1), Extra(0)]);
    }
}
