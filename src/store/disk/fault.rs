//! What is wrong with a folder or its disk, in words that name what to do.

use std::io::{self, ErrorKind};
use std::path::Path;

/// Why a store on disk cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "{0} is held by another process: stop that one, or give this one a folder of its own with --store disk:PATH"
    )]
    Held(String),
    /// It cannot be written.
    #[error(
        "{0} cannot be written ({1}): give it a folder that can with --store disk:PATH, or keep conversations in memory with --store memory"
    )]
    Unwritable(String, String),
    /// It is full.
    #[error("the disk of {0} is full ({1}): make room, or give it another folder with --store disk:PATH")]
    Full(String, String),
    /// Another version wrote it.
    #[error(
        "{0} was written by another version of this program (its schema is {1}, this one's {2}): use that version, or another folder with --store disk:PATH"
    )]
    Schema(String, String, u32),
    /// There is something else in it.
    #[error("{0} holds files, but no store: give it an empty folder with --store disk:PATH")]
    Foreign(String),
    /// It is damaged.
    #[error("{0} is damaged ({1}): restore it from a copy, or move it away and start with an empty folder")]
    Damaged(String, String),
}

impl OpenError {
    pub(super) fn of_io(folder: &Path, error: &io::Error) -> Self {
        let (name, why) = (folder.display().to_string(), error.to_string());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full(name, why),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData => Self::Damaged(name, why),
            _ => Self::Unwritable(name, why),
        }
    }

    pub(super) fn of(folder: &Path, error: &fjall::Error) -> Self {
        let name = folder.display().to_string();
        match error {
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => Self::of_io(folder, error),
            fjall::Error::Locked => Self::Held(name),
            error => Self::Damaged(name, words(error)),
        }
    }
}

/// An error of the database in words.
pub(super) fn words(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => error.to_string(),
        fjall::Error::Poisoned => "an earlier write or sync failed".to_owned(),
        error => format!("{error:?}"),
    }
}
