//! What is there after a restart.

use super::*;
