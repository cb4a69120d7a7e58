//! `context`: what a store keeps, looked at, carried away, brought in and deleted, while no proxy holds it.

mod line;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::line::Lines;
use super::check;
use crate::config::{Config, Loaded, StoreUrl};
use crate::conversation::principal::ContextKey;
use crate::store::{Disk, DiskSettings, Limits, OpenError, Put, Saved, Store, StoreError};

/// What `context` is given.
#[derive(Args, Clone, Debug)]
pub struct ContextArgs {
    #[command(subcommand)]
    verb: ContextVerb,
    /// The store, as for serve; by default where serve keeps conversations
    #[arg(long, value_name = "STORE", global = true)]
    store: Option<StoreUrl>,
    /// The configuration whose store it is
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum ContextVerb {
    /// List contexts, a line of JSON for each
    List(Which),
    /// Show what was said, a line of JSON for each turn
    Show(Which),
    /// Print contexts whole, a line of JSON for each turn: for import, and for digest verify
    Export {
        #[command(flatten)]
        which: Which,
        /// Also the secret with which credentials are hashed: without it callers do not find their contexts in another store
        #[arg(long)]
        with_secret: bool,
    },
    /// Put exported contexts in; those that are there already stay as they are
    Import {
        /// What was exported; - for standard input
        file: PathBuf,
    },
    /// Delete contexts, and their bytes from the files
    Delete {
        #[command(flatten)]
        which: Which,
        /// All that there are
        #[arg(long, conflicts_with = "context_id")]
        all: bool,
    },
}

/// Contexts that are meant; what is not said is any.
#[derive(Args, Clone, Debug, Default)]
struct Which {
    /// The contextId
    context_id: Option<String>,
    /// The route
    #[arg(long)]
    route: Option<String>,
    /// The principal, as list shows it
    #[arg(long)]
    principal: Option<String>,
}

impl Which {
    fn are(&self, key: &ContextKey) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        is(&self.context_id, &key.context_id)
            && is(&self.route, key.route.as_str())
            && is(&self.principal, key.principal.as_str())
    }
}

/// Why a store cannot be worked on.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(
        "{0} is held by a running proxy. To ask that proxy itself, --admin URL is to come; until then stop it first"
    )]
    Held(String),
    #[error(transparent)]
    Open(OpenError),
    #[error("there is no store in {0}")]
    Missing(String),
    #[error("the store {0} cannot be worked on from here: name a folder with --store disk:PATH")]
    Elsewhere(String),
    #[error(
        "neither STATE_DIRECTORY nor XDG_STATE_HOME nor HOME says where the store is: name it with --store disk:PATH"
    )]
    Nowhere,
    #[error("no such context")]
    NoSuchContext,
    #[error("say which contexts: a contextId, --route, --principal or --all")]
    Unsaid,
    #[error(
        "it was exported with the secret of another store, and this one has contexts of its own: import it into an empty one"
    )]
    OtherSecret,
    #[error("line {0}: {1}")]
    Line(usize, String),
    #[error("the configuration has errors")]
    Config,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs `context`. Exit codes: 0 done, 1 refused or nothing found.
pub async fn run(args: ContextArgs) -> ExitCode {
    match work(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads no further has what it wanted.
        Err(Refused::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(refused) => {
            super::complain(&refused);
            ExitCode::FAILURE
        }
    }
}

async fn work(args: &ContextArgs) -> Result<(), Refused> {
    let folder = folder(args)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match &args.verb {
        ContextVerb::List(which) => {
            each(&open(&folder)?, which, |saved| writeln!(out, "{}", line::listed(saved)))?;
        }
        ContextVerb::Show(which) => {
            let store = open(&folder)?;
            let shown = each(&store, which, |saved| Lines::shown(saved).try_for_each(|line| writeln!(out, "{line}")))?;
            some(shown, which)?;
        }
        ContextVerb::Export { which, with_secret } => {
            let store = open(&folder)?;
            let secret = with_secret.then(|| store.secret());
            let found = each(&store, which, |saved| {
                Lines::whole(saved, secret.as_ref()).try_for_each(|line| writeln!(out, "{line}"))
            })?;
            some(found, which)?;
        }
        ContextVerb::Import { file } => import(&folder, file, &mut out).await?,
        ContextVerb::Delete { which, all } => delete(&open(&folder)?, which, *all, &mut out).await?,
    }
    out.flush().map_err(Refused::Io)
}

fn some(found: usize, which: &Which) -> Result<(), Refused> {
    if found == 0 && which.context_id.is_some() { Err(Refused::NoSuchContext) } else { Ok(()) }
}

/// The folder of the store that is meant.
fn folder(args: &ContextArgs) -> Result<PathBuf, Refused> {
    let configured = match &args.config {
        Some(path) => {
            let loaded: Option<Loaded> = check::load(path, &mut io::stderr().lock())?;
            let Loaded { config: Config { store, .. }, .. } = loaded.ok_or(Refused::Config)?;
            store.url
        }
        None => None,
    };
    match args.store.clone().or(configured).or_else(StoreUrl::default_of_process).ok_or(Refused::Nowhere)? {
        StoreUrl::Disk(folder) => Ok(folder),
        other => Err(Refused::Elsewhere(other.to_string())),
    }
}

fn open(folder: &Path) -> Result<Disk, Refused> {
    if !folder.join("version").exists() {
        return Err(Refused::Missing(folder.display().to_string()));
    }
    open_or_make(folder, [0; 32])
}

/// Limits are the proxy's matter.
fn open_or_make(folder: &Path, secret: [u8; 32]) -> Result<Disk, Refused> {
    let limits = Limits { contexts: usize::MAX, bytes: usize::MAX, ttl: std::time::Duration::MAX, ..Limits::default() };
    let settings = DiskSettings { limits, ..DiskSettings::default() };
    Disk::open(folder, &settings, secret).map_err(|error| match error {
        OpenError::Held(name) => Refused::Held(name),
        other => Refused::Open(other),
    })
}

/// Does something with each context that is meant. How many these are.
fn each(store: &Disk, which: &Which, mut act: impl FnMut(&Saved) -> io::Result<()>) -> Result<usize, Refused> {
    let mut found = 0;
    for key in store.keys()?.iter().filter(|key| which.are(key)) {
        if let Some(saved) = store.saved(key)? {
            act(&saved)?;
            found += 1;
        }
    }
    Ok(found)
}

async fn import(folder: &Path, file: &Path, out: &mut impl Write) -> Result<(), Refused> {
    let input: Box<dyn BufRead> = match file.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(file)?)),
    };
    let mut contexts = line::Contexts::default();
    let (mut store, mut made, mut kept): (Option<Disk>, usize, usize) = (None, 0, 0);
    let mut end = 1;
    for (at, text) in input.lines().enumerate() {
        let text = text?;
        end = at + 2;
        if text.trim().is_empty() {
            continue;
        }
        let saved = contexts.read(&text).map_err(|why| Refused::Line(at + 1, why))?;
        let store = match &mut store {
            Some(store) => store,
            none => none.insert(for_import(folder, contexts.secret)?),
        };
        if let Some(saved) = saved {
            match store.put(saved).await? {
                Put::Made => made += 1,
                Put::Kept => kept += 1,
            }
        }
    }
    contexts.end().map_err(|why| Refused::Line(end, why))?;
    writeln!(out, "{made} contexts put in, {kept} were there already")?;
    Ok(())
}

/// The store to import into: one with the secret that came along, where one did.
fn for_import(folder: &Path, secret: Option<[u8; 32]>) -> Result<Disk, Refused> {
    let store = open_or_make(folder, secret.unwrap_or_else(crate::proxy::store::secret))?;
    match secret {
        Some(secret) if secret != store.secret() => Err(Refused::OtherSecret),
        _ => Ok(store),
    }
}

async fn delete(store: &Disk, which: &Which, all: bool, out: &mut impl Write) -> Result<(), Refused> {
    if !all && which.context_id.is_none() && which.route.is_none() && which.principal.is_none() {
        return Err(Refused::Unsaid);
    }
    let mut deleted = 0;
    for key in store.keys()?.iter().filter(|key| which.are(key)) {
        store.erase(key).await?;
        deleted += 1;
    }
    some(deleted, which)?;
    if deleted > 0 {
        store.compact()?;
    }
    writeln!(out, "{deleted} contexts deleted")?;
    Ok(())
}
