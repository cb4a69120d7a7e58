//! What is told of a run.

use std::time::Duration;

/// What was seen.
#[derive(Default)]
pub struct Figures {
    pub requests: usize,
    pub errors: usize,
    /// From the request's first byte to the answer's last.
    pub latencies: Vec<u32>,
    /// From the request's first byte to the first event.
    pub first_events: Vec<u32>,
    /// Between two events of a stream.
    pub gaps: Vec<u32>,
}

impl Figures {
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.latencies.extend(other.latencies);
        self.first_events.extend(other.first_events);
        self.gaps.extend(other.gaps);
    }

    /// As JSON.
    pub fn told(&mut self, took: Duration) -> String {
        format!(
            "{{\"requests\":{},\"errors\":{},\"seconds\":{:.6},\"latency_us\":{},\"first_event_us\":{},\"gap_us\":{}}}",
            self.requests,
            self.errors,
            took.as_secs_f64(),
            quantiles(&mut self.latencies),
            quantiles(&mut self.first_events),
            quantiles(&mut self.gaps)
        )
    }
}

pub fn micros(since: Duration) -> u32 {
    u32::try_from(since.as_micros()).unwrap_or(u32::MAX)
}

fn quantiles(values: &mut [u32]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    values.sort_unstable();
    let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
    format!("{{\"p50\":{},\"p99\":{},\"max\":{}}}", at(0.5), at(0.99), at(1.0))
}
