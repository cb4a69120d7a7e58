//! The way to a server, in the test's hands: open, slow, silent, or cut.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How the way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Open; every byte takes so long, in each direction.
    Open(Duration),
    /// Nothing gets through, and nobody is told.
    Silent,
    /// Connections are cut, and new ones are cut at once.
    Cut,
}

/// A relay on a port of its own.
pub struct Relay {
    /// Where it listens.
    pub port: u16,
    way: watch::Sender<Way>,
}

impl Relay {
    /// Starts a relay in front of a port, open.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (way, watched) = watch::channel(Way::Open(Duration::ZERO));
        let own = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *watched.borrow() != Way::Cut {
                    tokio::spawn(carry(client, port, watched.clone()));
                }
            }
        });
        Self { port: own, way }
    }

    /// Changes the way.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn carry(client: TcpStream, port: u16, mut way: watch::Receiver<Way>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (up, down) = (way.clone(), way.clone());
    tokio::select! {
        () = copy(from_client, to_server, up) => {}
        () = copy(from_server, to_client, down) => {}
        _ = way.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut way: watch::Receiver<Way>) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let delay = way.clone();
    let read = async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            let takes = if let Way::Open(takes) = *delay.borrow() { takes } else { Duration::ZERO };
            if sender.send((Instant::now() + takes, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = under_way.recv().await {
            tokio::time::sleep_until(due).await;
            if way.wait_for(|way| matches!(way, Way::Open(_))).await.is_err() || to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
