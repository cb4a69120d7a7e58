//! Folders that cannot be used.

use super::*;
