//! The client: a closed loop on each connection.

use std::io::{self, Write};
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::ClientArgs;
use crate::figures::{Figures, micros};
use crate::http::{Length, Wire, find, length};
use crate::requests::{Kind, Request};

/// Sends everything, prints the figures.
pub async fn run(args: ClientArgs) -> io::Result<()> {
    let tasks = LocalSet::new();
    let begun = Instant::now();
    let loops: Vec<_> = (0..args.connections).map(|at| tasks.spawn_local(connection(args.clone(), at))).collect();
    let mut figures = Figures::default();
    tasks
        .run_until(async {
            for each in loops {
                figures.add(each.await.map_err(io::Error::other)??);
            }
            Ok::<_, io::Error>(())
        })
        .await?;
    writeln!(io::stdout(), "{}", figures.told(begun.elapsed()))
}

async fn connection(args: ClientArgs, at: usize) -> io::Result<Figures> {
    let settings = format!("reply={};events={};gap={}", args.reply, args.events, args.gap);
    let context = format!("{}-{at}", args.run);
    let mut request = Request::new(args.kind, &args.path, args.size, &settings, &context, args.fresh);
    let mut wire = Wire::over(TcpStream::connect(args.address).await?)?;
    let mut figures = Figures::default();
    let share = args.requests / args.connections + usize::from(at < args.requests % args.connections);
    for _ in 0..share {
        let begun = Instant::now();
        wire.write(request.next()).await?;
        let head = wire.head().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let is_good = match length(&head) {
            Length::Of(length) => is_answer(&wire.exactly(length).await?, args.kind),
            Length::Chunked => events(&mut wire, begun, &mut figures).await? >= expected(&args),
        };
        figures.requests += 1;
        figures.errors += usize::from(!is_good || !head.starts_with("http/1.1 200"));
        figures.latencies.push(micros(begun.elapsed()));
    }
    Ok(figures)
}

/// Whether this is what the agent says, and no refusal.
fn is_answer(body: &[u8], kind: Kind) -> bool {
    let word: &[u8] = if kind == Kind::Untouched { b"\"pong\"" } else { b"\"completed\"" };
    find(body, word).is_some()
}

/// Events at least; a chunked answer that is no stream counts as one.
fn expected(args: &ClientArgs) -> usize {
    if args.kind == Kind::Stream { args.events + 2 } else { 0 }
}

/// Reads a stream to its end. How many events it had.
async fn events(wire: &mut Wire, begun: Instant, figures: &mut Figures) -> io::Result<usize> {
    let (mut count, mut last) = (0, None::<Instant>);
    while let Some(chunk) = wire.chunk().await? {
        let now = Instant::now();
        match last {
            Some(last) => figures.gaps.push(micros(now - last)),
            None => figures.first_events.push(micros(now - begun)),
        }
        last = Some(now);
        count += memchr::memmem::find_iter(&chunk, b"\n\n").count();
    }
    Ok(count)
}
