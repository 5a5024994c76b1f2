//! Whether a probability means what it says: expected calibration error over bins of equal mass
//! (Naeini et al. 2015; Nixon et al. 2019), with what chance alone would make of it.

/// Most bins.
const BINS: usize = 15;
/// Fewest items of a bin; with fewer, its share of right ones is mostly chance.
const FEWEST: usize = 20;

/// Items of similar probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Lowest probability.
    pub low: f64,
    /// Highest probability.
    pub high: f64,
    /// Items.
    pub items: usize,
    /// Mean probability: what is promised.
    pub promised: f64,
    /// Share of right ones: what is kept of it.
    pub right: f64,
}

/// A reliability table and its sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reliability {
    /// In ascending order.
    pub bins: Vec<Bin>,
    /// Mean distance of promised and right, by items: the expected calibration error.
    pub ece: f64,
    /// The error that a perfect probability would show on so many items: an ECE near it is chance.
    pub by_chance: f64,
}

impl Reliability {
    /// The table of `(probability, right)`. At most 15 bins of about equally many items, at least 20
    /// each; equal probabilities are never in two bins.
    pub fn of(said: &[(f64, bool)]) -> Reliability {
        let mut order = said.to_vec();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wanted = (order.len() / FEWEST).clamp(1, BINS);
        let (mut bins, mut from): (Vec<Bin>, usize) = (Vec::new(), 0);
        for number in 1..=wanted {
            let mut to = (order.len() * number / wanted).max(from);
            while to > 0 && to < order.len() && order[to - 1].0 == order[to].0 {
                to += 1;
            }
            if to > from {
                bins.push(bin(&order[from..to]));
                from = to;
            }
        }
        let all = order.len().max(1) as f64;
        let mean = |of: fn(&Bin) -> f64| bins.iter().map(|bin| bin.items as f64 / all * of(bin)).sum();
        let ece = mean(|bin| (bin.promised - bin.right).abs());
        // The mean distance of a share from its probability: that of a normal variable from its mean.
        let by_chance = mean(|bin| {
            let variance = bin.promised * (1.0 - bin.promised) / bin.items as f64;
            (2.0 / std::f64::consts::PI * variance.max(0.0)).sqrt()
        });
        Reliability { bins, ece, by_chance }
    }
}

fn bin(items: &[(f64, bool)]) -> Bin {
    let count = items.len() as f64;
    Bin {
        low: items[0].0,
        high: items[items.len() - 1].0,
        items: items.len(),
        promised: items.iter().map(|(p, _)| p).sum::<f64>() / count,
        right: items.iter().filter(|(_, right)| *right).count() as f64 / count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_distance_of_promised_and_right_weighed_by_items() {
        // 20 items promised 0.9 of which 15 are right, 60 promised 0.5 of which 33 are:
        // 20/80 · 0.15 + 60/80 · 0.05 = 0.075.
        let said: Vec<(f64, bool)> = (0..20).map(|at| (0.9, at < 15)).chain((0..60).map(|at| (0.5, at < 33))).collect();
        let found = Reliability::of(&said);
        assert_eq!(found.bins.iter().map(|bin| bin.items).collect::<Vec<_>>(), [60, 20], "ties are never torn apart");
        assert!((found.ece - 0.075).abs() < 1e-12, "{found:?}");
        // sqrt(2/π) · (60/80 · sqrt(0.25/60) + 20/80 · sqrt(0.09/20)).
        let chance =
            (2.0 / std::f64::consts::PI).sqrt() * (0.75 * (0.25f64 / 60.0).sqrt() + 0.25 * (0.09f64 / 20.0).sqrt());
        assert!((found.by_chance - chance).abs() < 1e-12);
    }

    #[test]
    fn bins_hold_equally_many_and_never_too_few() {
        let said = |count: usize| -> Vec<(f64, bool)> {
            (0..count).map(|at| (at as f64 / count as f64, at % 2 == 0)).collect()
        };
        let sizes =
            |count: usize| -> Vec<usize> { Reliability::of(&said(count)).bins.iter().map(|bin| bin.items).collect() };
        assert_eq!(sizes(1500), vec![100; 15]);
        assert_eq!(sizes(59), [29, 30]);
        assert_eq!(sizes(3), [3]);
        assert_eq!(Reliability::of(&[]), Reliability::default());
    }
}
