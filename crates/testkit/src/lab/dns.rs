//! One DNS question over UDP: enough to see what CoreDNS answers, from the place where it is asked.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The kinds of records that Kubernetes names have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordType {
    /// A: IPv4 addresses of a name.
    A = 1,
    /// Name of an address, asked for as `4.3.2.1.in-addr.arpa`.
    Ptr = 12,
    /// AAAA: IPv6 addresses of a name.
    Aaaa = 28,
    /// Port and name of a server, given as `priority weight port target`.
    Srv = 33,
}

const OPT: u16 = 41;
const NXDOMAIN: u8 = 3;
/// Room for an answer with some hundred addresses; without asking for it servers cut at 512 bytes.
const MAX_PAYLOAD: u16 = 4096;

/// Asks `server` for the records of `name`; an answer without any, or "no such name", is an empty list.
pub(super) fn resolve(server: SocketAddrV4, name: &str, kind: RecordType) -> Result<Vec<String>> {
    let doing = || format!("ask {server} for {kind:?} {name}");
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).with_context(doing)?;
    socket.connect(server).with_context(doing)?;
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .with_context(doing)?;
    let mut buffer = vec![0; MAX_PAYLOAD.into()];
    for id in 1..=3 {
        socket
            .send(&question(id, name, kind)?)
            .with_context(doing)?;
        match socket.recv(&mut buffer) {
            Ok(length) => return answers(&buffer[..length], id, kind).with_context(doing),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error).with_context(doing),
        }
    }
    bail!("{}: no answer within three seconds", doing())
}

/// A query as of RFC 1035 4.1, with the larger answer size of RFC 6891.
fn question(id: u16, name: &str, kind: RecordType) -> Result<Vec<u8>> {
    let mut message = Vec::new();
    // Flags: recursion desired; one question, one additional record.
    for word in [id, 0x0100, 1, 0, 0, 1] {
        message.extend(word.to_be_bytes());
    }
    for label in name.trim_end_matches('.').split('.') {
        ensure!((1..=63).contains(&label.len()), "{name:?} is no DNS name");
        message.push(u8::try_from(label.len())?);
        message.extend(label.as_bytes());
    }
    message.push(0);
    for word in [kind as u16, 1] {
        message.extend(word.to_be_bytes());
    }
    message.push(0);
    for word in [OPT, MAX_PAYLOAD, 0, 0, 0] {
        message.extend(word.to_be_bytes());
    }
    Ok(message)
}

/// The records of type `kind` in the answer section, sorted.
fn answers(message: &[u8], id: u16, kind: RecordType) -> Result<Vec<String>> {
    let mut reader = Reader { message, at: 0 };
    ensure!(reader.word()? == id, "answer to another question");
    let flags = reader.word()?.to_be_bytes();
    ensure!(
        flags[0] & 2 == 0,
        "answer is cut off: more records than fit into {MAX_PAYLOAD} bytes"
    );
    let code = flags[1] & 0x0f;
    ensure!(
        code == 0 || code == NXDOMAIN,
        "server answered with error code {code} (2 servfail, 5 refused)"
    );
    let (questions, records) = (reader.word()?, reader.word()?);
    reader.at += 4;
    for _ in 0..questions {
        reader.name()?;
        reader.at += 4;
    }
    let mut found = Vec::new();
    for _ in 0..records {
        reader.name()?;
        let record_type = reader.word()?;
        reader.at += 6; // class, time to live
        let end = usize::from(reader.word()?) + reader.at;
        if record_type == kind as u16 {
            found.push(reader.record(kind)?);
        }
        reader.at = end;
    }
    found.sort();
    Ok(found)
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn record(&mut self, kind: RecordType) -> Result<String> {
        Ok(match kind {
            RecordType::A => Ipv4Addr::from(self.bytes::<4>()?).to_string(),
            RecordType::Aaaa => Ipv6Addr::from(self.bytes::<16>()?).to_string(),
            RecordType::Ptr => self.name()?,
            RecordType::Srv => {
                format!(
                    "{} {} {} {}",
                    self.word()?,
                    self.word()?,
                    self.word()?,
                    self.name()?
                )
            }
        })
    }

    /// A name, following pointers to earlier parts of the message (RFC 1035 4.1.4).
    fn name(&mut self) -> Result<String> {
        let (mut name, mut back) = (String::new(), None);
        // More pointers than this can only be a loop.
        for _ in 0..128 {
            let [length] = self.bytes()?;
            match length {
                0 => {
                    self.at = back.unwrap_or(self.at);
                    return Ok(name);
                }
                1..=63 => {
                    let label = self
                        .message
                        .get(self.at..self.at + usize::from(length))
                        .context("message ends early")?;
                    write!(name, "{}.", String::from_utf8_lossy(label))?;
                    self.at += usize::from(length);
                }
                _ => {
                    let [low] = self.bytes()?;
                    back = back.or(Some(self.at));
                    self.at = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                }
            }
        }
        bail!("name without end in a DNS message")
    }

    fn word(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.bytes()?))
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self
            .message
            .get(self.at..self.at + N)
            .context("message ends early")?;
        self.at += N;
        Ok(bytes.try_into()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to `question` with the given records (type, data), each named by a pointer to the question.
    fn reply(question: &[u8], flags: u16, records: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = question[..question.len() - 11].to_vec();
        message[2..4].copy_from_slice(&flags.to_be_bytes());
        message[6..8].copy_from_slice(&u16::try_from(records.len()).unwrap().to_be_bytes());
        message[10..12].fill(0);
        for (kind, data) in records {
            message.extend([0xc0, 12]);
            message.extend(kind.to_be_bytes());
            message.extend([0, 1, 0, 0, 0, 5]);
            message.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            message.extend(*data);
        }
        message
    }

    #[test]
    fn addresses_are_read_and_sorted() {
        let asked = question(7, "db.default.svc.cluster.local", RecordType::A).unwrap();
        let reply = reply(
            &asked,
            0x8580,
            &[(1, &[10, 0, 0, 2]), (5, &[0]), (1, &[10, 0, 0, 1])],
        );
        assert_eq!(
            answers(&reply, 7, RecordType::A).unwrap(),
            ["10.0.0.1", "10.0.0.2"]
        );
    }

    #[test]
    fn a_target_that_points_into_the_message_is_followed() {
        let asked = question(7, "db.local.", RecordType::Srv).unwrap();
        let data = [
            0, 0, 0, 100, 0x1f, 0x90, 4, b'd', b'b', b'-', b'0', 0xc0, 12,
        ];
        let reply = reply(&asked, 0x8580, &[(33, &data), (33, &data)]);
        let line = "0 100 8080 db-0.db.local.";
        assert_eq!(answers(&reply, 7, RecordType::Srv).unwrap(), [line, line]);
    }

    #[test]
    fn no_such_name_is_empty_and_refusal_is_an_error() {
        let asked = question(7, "x.local", RecordType::A).unwrap();
        assert!(
            answers(&reply(&asked, 0x8583, &[]), 7, RecordType::A)
                .unwrap()
                .is_empty()
        );
        assert!(answers(&reply(&asked, 0x8585, &[]), 7, RecordType::A).is_err());
    }

    #[test]
    fn broken_messages_are_errors() {
        let asked = question(7, "x.local", RecordType::A).unwrap();
        let whole = reply(&asked, 0x8580, &[(1, &[10, 0, 0, 1])]);
        for length in 0..whole.len() {
            assert!(
                answers(&whole[..length], 7, RecordType::A).is_err(),
                "{length}"
            );
        }
        // A name that points to itself.
        let mut endless = whole.clone();
        endless[12..14].copy_from_slice(&[0xc0, 12]);
        assert!(answers(&endless, 7, RecordType::A).is_err());
    }
}
