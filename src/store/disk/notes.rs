//! Small things under a name, for a time.

use super::key;
use super::records::Records;

/// Notes whose time is over that go with every one that comes.
const SWEPT_AT_ONCE: usize = 8;

/// Keeps a note until a time, or forgets it; `now` is the latest time that is known.
pub(super) fn keep(records: &Records, name: &str, value: Option<Vec<u8>>, until: u64, now: u64) {
    let mut writes = Vec::new();
    for (end, _) in records.scan(&key::note_ends(), &key::note_ends(), SWEPT_AT_ONCE) {
        let Some((when, note)) = key::ended(&end).filter(|(when, _)| *when <= now) else { break };
        // One that was kept anew meanwhile has another end.
        if records.get(&note).is_some_and(|found| ends(&found) == Some(when)) {
            writes.push((note, None));
        }
        writes.push((end, None));
    }
    let at = key::note(name);
    if let Some(end) = records.get(&at).and_then(|before| ends(&before)) {
        writes.push((key::note_end(end, &at), None));
    }
    if value.is_some() {
        writes.push((key::note_end(until, &at), Some(Vec::new())));
    }
    writes.push((at, value.map(|value| [&until.to_be_bytes()[..], &value].concat())));
    records.write(writes);
}

/// What is noted under a name, unless its time is over.
pub(super) fn find(records: &Records, name: &str, now: u64) -> Option<Vec<u8>> {
    let found = records.get(&key::note(name))?;
    (now < ends(&found)?).then(|| found[8..].to_vec())
}

fn ends(record: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*record.first_chunk()?))
}
