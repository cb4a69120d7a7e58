//! What was typed: the tables of the file, walked key by key, so that all of what is wrong is found in one run and not the first alone.

use http::Uri;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue, Error};

use super::effective::{ADDRESS, Config, Route};
use super::keys::{FREE, GLOBAL, Key, RENAMED, ROUTE, Read, SHARED, Scope};
use super::report::Report;
use super::suggest;
use super::value::{Typed, Wrong};
use crate::conversation::principal::RouteId;

type Name<'a> = Spanned<DeString<'a>>;

/// Reads a file over the defaults; `None` if it is no TOML. What it says of one setting alone is checked, what settings make together is
/// not.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Config> {
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        report.syntax(syntax(text, error));
    }
    let clear = errors.iter().all(|error| error.message().starts_with(UNQUOTED));
    clear.then(|| Walk { report, scope: Scope::File }.root(root.get_ref()))
}

fn syntax(text: &str, error: &Error) -> Wrong {
    let span = error.span().unwrap_or_default();
    let typed = text.get(span.clone()).filter(|_| error.message().starts_with(UNQUOTED));
    Wrong { help: typed.map(|typed| format!("write \"{typed}\"")), message: error.message().to_owned(), span }
}

/// The one error of syntax (as the parser words it) after which the rest of the file still means what it says. After any other one, what
/// follows may stand in another table than was meant, and nothing is said of it.
const UNQUOTED: &str = "string values must be quoted";

struct Walk<'r, 'a> {
    report: &'r mut Report<'a>,
    scope: Scope,
}

impl Walk<'_, '_> {
    /// The top level. The settings for all routes go into one that each route starts from.
    fn root(&mut self, root: &DeTable<'_>) -> Config {
        let mut config = unsaid();
        let mut common = unsaid_route();
        for (name, value) in root {
            match name.get_ref().as_ref() {
                "route" => {}
                table if GLOBAL.iter().any(|key| inside(key.path, table)) => {
                    self.entry(&[GLOBAL], &mut config, "", name, value);
                }
                _ => self.entry(&[SHARED, FREE], &mut common, "", name, value),
            }
        }
        config.routes = match root.get_key_value("route") {
            Some((name, value)) => self.routes(&common, name, value),
            None => vec![common],
        };
        config
    }

    fn routes(&mut self, common: &Route, name: &Name<'_>, value: &Typed<'_>) -> Vec<Route> {
        if let DeValue::Array(list) = value.get_ref() {
            self.report.setting(Scope::File, "route", name.span(), Ok(()));
            return self.list(common, list);
        }
        let wrong = Wrong { span: name.span(), ..Wrong::new(value, "routes are a list").help("write `[[route]]`") };
        self.report.setting(Scope::File, "route", name.span(), Err(wrong));
        Vec::new()
    }

    fn list(&mut self, common: &Route, list: &DeArray<'_>) -> Vec<Route> {
        let routes = list.iter().enumerate().map(|(number, value)| {
            let mut route = common.clone();
            let mut walk = Walk { report: &mut *self.report, scope: Scope::Route(number) };
            match value.get_ref() {
                DeValue::Table(table) => {
                    walk.report.setting(walk.scope, "", value.span(), Ok(()));
                    walk.table(&[SHARED, FREE, ROUTE], &mut route, "", table);
                }
                _ => walk.report.setting(walk.scope, "", value.span(), Err(Wrong::new(value, "a route is a table"))),
            }
            route
        });
        routes.collect()
    }

    fn table<T>(&mut self, keys: &[&[Key<T>]], target: &mut T, path: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            self.entry(keys, target, path, name, value);
        }
    }

    fn entry<T>(&mut self, keys: &[&[Key<T>]], target: &mut T, table: &str, name: &Name<'_>, value: &Typed<'_>) {
        let path = join(table, name.get_ref());
        let key = keys.iter().copied().flatten().find(|key| key.path == path);
        let has_keys = keys.iter().copied().flatten().any(|key| key.path != path && inside(key.path, &path));
        match (key.map(|key| &key.read), value.get_ref()) {
            _ if name.get_ref().contains('.') => self.unknown(table, name),
            (Some(Read::Each(read)), DeValue::Table(entries)) => self.each(*read, target, &path, entries),
            (_, DeValue::Table(inner)) if has_keys => self.table(keys, target, &path, inner),
            (Some(Read::Value(read)), _) => self.report.setting(self.scope, &path, name.span(), read(target, value)),
            (Some(Read::Each(_)), _) => self.no_table(&path, value),
            (None, _) if has_keys => self.no_table(&path, value),
            (None, _) => self.unknown(table, name),
        }
    }

    fn each<T>(
        &mut self,
        read: fn(&mut T, &Name<'_>, &Typed<'_>) -> Result<(), Wrong>,
        target: &mut T,
        path: &str,
        entries: &DeTable<'_>,
    ) {
        for (name, value) in entries {
            let read = read(target, name, value);
            self.report.setting(self.scope, &join(path, name.get_ref()), name.span(), read);
        }
    }

    fn no_table(&mut self, path: &str, value: &Typed<'_>) {
        let message = format!("expected a table, found a value of type {}", value.get_ref().type_str());
        let wrong = Wrong::new(value, message).help(format!("write `[{}]`", self.scope.name(path)));
        self.report.setting(self.scope, path, value.span(), Err(wrong));
    }

    fn unknown(&mut self, table: &str, name: &Name<'_>) {
        let path = join(table, name.get_ref());
        let successor = RENAMED.iter().find(|(old, _)| *old == path).map(|(_, new)| self.scope.name(new));
        let (message, help) = match successor {
            Some(successor) => ("no longer called so", Some(format!("write `{successor}`"))),
            None => ("unknown key", self.meant(table, name.get_ref())),
        };
        self.report.wrong(self.scope, &path, Wrong { span: name.span(), message: message.to_owned(), help });
    }

    /// What to do about an unknown name. One that is known elsewhere is misplaced and not mistyped.
    fn meant(&self, table: &str, name: &str) -> Option<String> {
        if GLOBAL.iter().any(|key| inside(key.path, name)) {
            return Some("this table stands at the top level".to_owned());
        }
        let places = self.scope.places_of(name).into_iter().map(|table| format!("`{table}`")).collect::<Vec<_>>();
        if !places.is_empty() {
            return Some(format!("it stands in {}", places.join(" or ")));
        }
        let near = suggest::nearest(name, self.scope.names_in(table));
        near.map(|near| format!("did you mean `{near}`?"))
    }
}

/// The defaults, without a route.
fn unsaid() -> Config {
    Config { routes: Vec::new(), ..Config::quick(ADDRESS, Uri::default()) }
}

/// The defaults of a route, without a name and without an agent.
fn unsaid_route() -> Route {
    Route { id: RouteId::from(""), ..Route::new(Uri::default()) }
}

fn join(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// Whether a key is one, or stands in one.
fn inside(path: &str, table: &str) -> bool {
    path.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
