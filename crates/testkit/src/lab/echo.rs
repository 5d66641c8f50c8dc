//! The server in every pod: answers each request with who answered, where, and whom it saw asking.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use super::namespace::inside;

/// A connection to a client that sends or takes nothing is closed after this time.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);

/// An echo server on one port; dropping it closes the port.
#[derive(Debug)]
pub(super) struct Echo {
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Listens on `port` of `namespace`; the port is open when this returns.
    pub(super) fn start(namespace: &str, port: u16, pod: &str, node: &str) -> Result<Echo> {
        let listener = inside(namespace, || {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        })?
        .with_context(|| format!("listen on port {port} in namespace {namespace}"))?;
        let who = format!("pod name:\t{pod}\nnode name:\t{node}\n");
        let accepting = listener.try_clone().context("clone a listener")?;
        let thread = thread::Builder::new()
            .name(format!("echo {pod}"))
            .spawn(move || serve(&accepting, &who))
            .with_context(|| format!("start the echo server of pod {pod}"))?;
        Ok(Echo {
            listener,
            thread: Some(thread),
        })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // A thread in accept only wakes when the socket is shut down, which std offers for streams alone:
        // the type is just a wrapper of the file descriptor, and Linux accepts the call for listeners too.
        let woken = self
            .listener
            .try_clone()
            .and_then(|listener| TcpStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both));
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, who: &str) {
    // Ends with the first error, which is the shutdown; what else accept reports on Linux is not survivable.
    while let Ok((stream, _)) = listener.accept() {
        let who = who.to_owned();
        // Of its own, so that a client that hangs does not delay the others; gone after CLIENT_TIMEOUT at the latest.
        thread::spawn(move || answer(&stream, &who));
    }
}

fn answer(stream: &TcpStream, who: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let client = stream.peer_addr()?.ip();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 && line != "\r\n" && line != "\n" {
        line.clear();
    }
    let body = format!("{who}client:\t{client}\n");
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ";
    let mut writer = stream;
    writer.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes())
}
