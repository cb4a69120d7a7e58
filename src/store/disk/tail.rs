//! The end of the journal, mended before the database reads it.
//!
//! A machine that loses its power in the middle of a write leaves a batch of which any part may be missing. Nobody was told of it. The
//! database takes one with a hole in it for damage and refuses the whole journal, so what is left of such a batch is cut off here; where
//! another batch stands behind it, it is damage indeed, and is left for the database to tell.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

/// What ends every batch.
const TRAILER: &[u8] = b"FJL\x03";

/// Cuts off a batch that was not written whole. How many bytes that were. What another process is writing is left alone.
pub(super) fn mend(folder: &Path) -> io::Result<u64> {
    let lock = match File::open(folder.join("lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    // The database takes the lock itself, and tells of one who has it.
    if lock.try_lock().is_err() {
        return Ok(0);
    }
    let Some(path) = active_journal(folder)? else { return Ok(0) };
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let mut reader = Reader { file: BufReader::new(&file), at: 0, hash: Xxh3::default() };
    let mut whole = 0;
    while reader.batch()?.is_some() {
        whole = reader.at;
    }
    let rest = rest(&path, whole)?;
    if rest.is_empty() || memchr::memmem::find_iter(&rest, TRAILER).count() > 1 {
        return Ok(0);
    }
    file.set_len(whole)?;
    file.sync_all()?;
    Ok(rest.len() as u64)
}

/// The journal with the highest number.
fn active_journal(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if path.extension().is_some_and(|extension| extension == "jnl") && number.is_some() {
            newest = newest.max(number.map(|number| (number, path)));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// What is in the file from there on, without the zeros at its end, of which there are many.
fn rest(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let (mut rest, mut zeros, mut page) = (Vec::new(), 0, [0; PAGE]);
    loop {
        let read = file.read(&mut page)?;
        if read == 0 {
            return Ok(rest);
        }
        if page[..read] == [0; PAGE][..read] {
            zeros += read;
        } else {
            rest.resize(rest.len() + std::mem::take(&mut zeros), 0);
            rest.extend_from_slice(&page[..read]);
        }
    }
}

const PAGE: usize = 4096;

struct Reader<R> {
    file: R,
    at: u64,
    hash: Xxh3,
}

impl<R: Read> Reader<R> {
    /// Goes past a batch; `None` where there is none that is whole.
    fn batch(&mut self) -> io::Result<Option<()>> {
        match self.whole_batch() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            batch => batch,
        }
    }

    fn whole_batch(&mut self) -> io::Result<Option<()>> {
        let [tag] = self.take()?;
        let count = u32::from_le_bytes(self.take()?);
        let _number: [u8; 8] = self.take()?;
        if tag != START {
            return Ok(None);
        }
        self.hash = Xxh3::default();
        for _ in 0..count {
            match self.take()? {
                [ITEM] => self.item()?,
                [CLEAR] => drop(self.take::<8>()?),
                _ => return Ok(None),
            }
        }
        let hash = self.hash.digest();
        let [tag] = self.take()?;
        let (said, trailer): (_, [u8; 4]) = (u64::from_le_bytes(self.take()?), self.take()?);
        Ok((tag == END && said == hash && trailer == *TRAILER).then_some(()))
    }

    /// Kind of value, compression and keyspace; then three lengths, of which the last two are one where nothing is compressed.
    fn item(&mut self) -> io::Result<()> {
        let _head: [u8; 10] = self.take()?;
        let key = u16::from_le_bytes(self.take()?);
        let _length: [u8; 4] = self.take()?;
        let value = u32::from_le_bytes(self.take()?);
        self.skip(u64::from(key) + u64::from(value))
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.hash.update(&bytes);
        self.at += N as u64;
        Ok(bytes)
    }

    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        let mut buffer = [0; 8192];
        while bytes > 0 {
            let some = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
            self.file.read_exact(&mut buffer[..some])?;
            self.hash.update(&buffer[..some]);
            self.at += some as u64;
            bytes -= some as u64;
        }
        Ok(())
    }
}

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
