//! What is counted of decisions, and the figures that come of it.

use crate::conversation::question::Expected;

/// Decisions against labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions taken for questions.
    pub found: usize,
    /// Questions that were not.
    pub missed: usize,
    /// Finished replies that were taken for questions.
    pub false_alarms: usize,
    /// Finished replies that were not.
    pub left: usize,
}

/// The figures of [`Counts`]; `None` where there is nothing to divide by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Of what was taken for a question, how much was one.
    pub precision: Option<f64>,
    /// Of the questions, how many were found.
    pub recall: Option<f64>,
    /// The harmonic mean of both.
    pub f1: Option<f64>,
    /// Of the finished replies, how many were taken for questions.
    pub false_alarm_rate: Option<f64>,
}

impl Counts {
    /// Counts one decision.
    pub fn add(&mut self, asks: bool, waiting: bool) {
        let count = match (asks, waiting) {
            (true, true) => &mut self.found,
            (true, false) => &mut self.missed,
            (false, true) => &mut self.false_alarms,
            (false, false) => &mut self.left,
        };
        *count += 1;
    }

    /// How many.
    pub fn all(&self) -> usize {
        self.found + self.missed + self.false_alarms + self.left
    }

    /// What they come to.
    pub fn figures(&self) -> Figures {
        let &Self { found, missed, false_alarms, left } = self;
        Figures {
            precision: share(found, found + false_alarms),
            recall: share(found, found + missed),
            f1: if found + missed == 0 { None } else { share(2 * found, 2 * found + missed + false_alarms) },
            false_alarm_rate: share(false_alarms, false_alarms + left),
        }
    }
}

/// `part` of `whole`; `None` of nothing.
pub fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// How well approval and free text are told apart: the mean of both classes' F1, over the replies that wait for one of them and were found.
/// Another answer than these two is a miss of the class. `None` where one of the two does not occur.
pub fn macro_f1(pairs: &[(Expected, Expected)]) -> Option<f64> {
    let f1 = |class| {
        let mut counts = Counts::default();
        for &(wanted, told) in pairs {
            counts.add(wanted == class, told == class);
        }
        counts.figures().f1
    };
    Some((f1(Expected::Approval)? + f1(Expected::FreeText)?) / 2.0)
}
