//! One question's way, without the waiting: a packet becomes an answer, or a question to somebody else.
//!
//! ```text
//! packet ─► take ─┬─► answer                        asked ─► packet ─► accept ─► message
//!                 └─► Pending ─► asked elsewhere ─► message ─► finish ─► answer
//! ```

use hickory_proto::op::{
    Edns, Header, Message, MessageType, Metadata, OpCode, Query, ResponseCode,
};
use hickory_proto::rr::Record;
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

use super::wire::{self, Incoming, MAX_UDP, Reply, Request, Transport};
use crate::answer::{Decision, To, Zone, decide, record};
use crate::records::Records;

/// Names that lead to names that lead to names: after so many it is a circle.
const MAX_ALIASES: usize = 8;

/// What becomes of a packet.
#[derive(Debug)]
pub enum Step {
    /// Nobody is answered.
    Silence,
    /// The answer is in the buffer; its code.
    Answered(ResponseCode),
    /// Somebody else must be asked first.
    Ask(Box<Pending>),
}

/// A question that waits for somebody else's answer.
#[derive(Debug)]
pub struct Pending {
    request: Request,
    query: Query,
    /// What has been found on the way to `wanted`.
    found: Vec<Record>,
    /// What to ask.
    pub wanted: Query,
    /// Whom to ask.
    pub to: To,
}

/// What is asked of somebody else; equal ones are asked once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    to: To,
    name: hickory_proto::rr::Name,
    kind: u16,
    transport: Transport,
    signatures: bool,
    unchecked: bool,
    recursive: bool,
}

/// Takes a packet; an answer is written into `buffer`.
pub fn take(
    (zone, records): (&Zone, &Records),
    packet: &[u8],
    transport: Transport,
    buffer: &mut Vec<u8>,
) -> Step {
    let (request, query) = match wire::read(packet) {
        Incoming::Silence => return Step::Silence,
        Incoming::Bad(request, code) => {
            let reply = Reply::code(code);
            return answered(&request, None, &reply, (transport, buffer));
        }
        Incoming::Question(request, query) => (request, query),
    };
    match resolve(zone, records, &query) {
        Resolved::Reply(reply) => answered(&request, Some(&query), &reply, (transport, buffer)),
        Resolved::Ask { found, wanted, to } => Step::Ask(Box::new(Pending {
            request,
            query,
            found,
            wanted,
            to,
        })),
    }
}

/// Refuses a packet's question, whatever it is.
pub fn refuse(packet: &[u8], transport: Transport, buffer: &mut Vec<u8>) -> Step {
    let (request, query) = match wire::read(packet) {
        Incoming::Silence => return Step::Silence,
        Incoming::Bad(request, _) => (request, None),
        Incoming::Question(request, query) => (request, Some(query)),
    };
    let reply = Reply::code(ResponseCode::Refused);
    answered(&request, query.as_ref(), &reply, (transport, buffer))
}

impl Pending {
    /// Writes the answer once another server has answered, or none has.
    pub fn finish(
        &self,
        heard: Option<&Message>,
        transport: Transport,
        buffer: &mut Vec<u8>,
    ) -> Step {
        let reply = match heard {
            None => Reply::code(ResponseCode::ServFail),
            Some(message) => Reply {
                code: message.metadata.response_code,
                authoritative: message.metadata.authoritative && self.found.is_empty(),
                truncated: message.metadata.truncation,
                authentic: message.metadata.authentic_data && self.found.is_empty(),
                data: Vec::new(),
                answers: [&self.found[..], &message.answers].concat(),
                authorities: message.authorities.clone(),
                additionals: message.additionals.clone(),
            },
        };
        answered(
            &self.request,
            Some(&self.query),
            &reply,
            (transport, buffer),
        )
    }

    /// What is to be asked.
    pub fn asked(&self, transport: Transport) -> Asked {
        Asked {
            to: self.to,
            name: self.wanted.name().clone(),
            kind: self.wanted.query_type().into(),
            transport,
            signatures: self.request.edns.is_some_and(|edns| edns.signatures),
            unchecked: self.request.metadata.checking_disabled,
            recursive: self.request.metadata.recursion_desired,
        }
    }
}

impl Asked {
    /// Whom to ask.
    pub fn to(&self) -> To {
        self.to
    }

    /// Over what.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The message that asks it, with an id that nobody can guess.
    pub fn message(&self) -> Message {
        let mut message = Message::query();
        message.metadata.recursion_desired = self.recursive;
        message.metadata.checking_disabled = self.unchecked;
        message.add_query(Query::query(self.name.clone(), self.kind.into()));
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP);
        edns.set_dnssec_ok(self.signatures);
        message.set_edns(edns);
        message
    }
}

/// Reads a packet as the answer to a question that was sent; anything else is nothing.
pub fn accept(sent: &Message, packet: &[u8]) -> Option<Message> {
    let Header { metadata, counts } = Header::read(&mut BinDecoder::new(packet)).ok()?;
    let is_answer = metadata.message_type == MessageType::Response
        && metadata.op_code == OpCode::Query
        && metadata.id == sent.metadata.id
        && counts.queries == 1;
    if !is_answer {
        return None;
    }
    let message = Message::from_vec(packet).ok()?;
    (message.queries == sent.queries).then_some(message)
}

/// Whether an answer is none, so that another server may know better.
pub fn is_failure(metadata: &Metadata) -> bool {
    !matches!(
        metadata.response_code,
        ResponseCode::NoError | ResponseCode::NXDomain
    )
}

enum Resolved {
    Reply(Reply),
    Ask {
        found: Vec<Record>,
        wanted: Query,
        to: To,
    },
}

/// Follows aliases from the view as far as the view goes.
fn resolve(zone: &Zone, records: &Records, query: &Query) -> Resolved {
    let mut found = Vec::new();
    let mut wanted = query.clone();
    for _ in 0..MAX_ALIASES {
        let (code, negative) = match decide(records, zone, &wanted) {
            Decision::Answer(answer) => {
                let mut data = answer.data;
                if !found.is_empty() {
                    let data = data.drain(..);
                    found.extend(data.map(|data| record(wanted.name(), data)));
                }
                return Resolved::Reply(Reply {
                    data,
                    additionals: answer.additional,
                    ..authoritative(ResponseCode::NoError, found, None)
                });
            }
            Decision::Alias { record, target } => {
                found.push(record);
                wanted.set_name(target);
                continue;
            }
            Decision::Forward(to) => return Resolved::Ask { found, wanted, to },
            Decision::NoData(soa) => (ResponseCode::NoError, soa),
            Decision::NxDomain(soa) => (ResponseCode::NXDomain, soa),
            Decision::NotReady => return Resolved::Reply(Reply::code(ResponseCode::ServFail)),
            Decision::Refused => return Resolved::Reply(Reply::code(ResponseCode::Refused)),
        };
        return Resolved::Reply(authoritative(code, found, Some(negative)));
    }
    Resolved::Reply(Reply::code(ResponseCode::ServFail))
}

fn authoritative(code: ResponseCode, answers: Vec<Record>, negative: Option<Record>) -> Reply {
    Reply {
        authoritative: true,
        answers,
        authorities: negative.into_iter().collect(),
        ..Reply::code(code)
    }
}

/// An answer that cannot be written becomes one without records.
fn answered(
    request: &Request,
    query: Option<&Query>,
    reply: &Reply,
    (transport, buffer): (Transport, &mut Vec<u8>),
) -> Step {
    let limit = request.limit(transport);
    if wire::write(request, query, reply, (limit, buffer)).is_ok() {
        return Step::Answered(reply.code);
    }
    let failure = Reply::code(ResponseCode::ServFail);
    match wire::write(request, query, &failure, (limit, buffer)) {
        Ok(()) => Step::Answered(failure.code),
        Err(_) => Step::Silence,
    }
}
