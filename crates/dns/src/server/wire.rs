//! Messages as they come and go: what is a question at all, and how long an answer may be.
//!
//! Nothing here trusts what a packet claims about itself. An answer is never larger than what the asker
//! can take: 512 bytes over UDP without EDNS, at most [`MAX_UDP`] with it (RFC 6891, RFC 9715).

use crate::answer::TTL;
use hickory_proto::ProtoError;
use hickory_proto::op::{
    Edns, Header, HeaderCounts, Message, MessageType, Metadata, OpCode, Query, ResponseCode,
};
use hickory_proto::rr::{DNSClass, RData, Record};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncodable, BinEncoder};

/// What fits into one packet of every network there is, so that none is cut into fragments.
pub const MAX_UDP: u16 = 1232;
/// What everybody can take, and the size of a question that came without EDNS.
const MIN_UDP: u16 = 512;
/// EDNS, a signature, and two more for good measure.
const MAX_ADDITIONAL: u16 = 4;
/// A pointer to what follows the header: the question's name, in its own spelling.
const QUESTIONS_NAME: u16 = 0xC000 | 0x000C;
/// An OPT record without options.
const OPT_LENGTH: u16 = 11;

/// How a message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// One packet.
    Udp,
    /// A stream.
    Tcp,
}

/// A packet that came in.
#[derive(Debug)]
pub enum Incoming {
    /// Not to be answered, whoever sent it: no question, or not even a header.
    Silence,
    /// To be answered with nothing but this code.
    Bad(Request, ResponseCode),
    /// A question.
    Question(Request, Query),
}

/// What is known of a question besides its name.
#[derive(Debug, Clone)]
pub struct Request {
    /// Of its header.
    pub metadata: Metadata,
    /// What it can take, if it speaks EDNS.
    pub edns: Option<Capability>,
}

/// The asker's EDNS options.
#[derive(Debug, Clone, Copy)]
pub struct Capability {
    /// The largest packet it takes.
    pub payload: u16,
    /// Whether it wants signatures (DO).
    pub signatures: bool,
}

/// The sections of an answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// Its outcome.
    pub code: ResponseCode,
    /// Whether we are the authority for it.
    pub authoritative: bool,
    /// Whether something was left out already.
    pub truncated: bool,
    /// Whether signatures were checked by who was asked.
    pub authentic: bool,
    /// What is at the question's own name.
    pub data: Vec<RData>,
    /// What was asked for and is not at the question's name.
    pub answers: Vec<Record>,
    /// Who knows, or the SOA of a negative answer.
    pub authorities: Vec<Record>,
    /// What will be asked for next.
    pub additionals: Vec<Record>,
}

impl Reply {
    /// An answer that is only a code.
    pub fn code(code: ResponseCode) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }
}

impl Request {
    /// How large the answer may be.
    pub fn limit(&self, transport: Transport) -> u16 {
        match (transport, self.edns) {
            (Transport::Tcp, _) => u16::MAX,
            (Transport::Udp, None) => MIN_UDP,
            (Transport::Udp, Some(edns)) => edns.payload.clamp(MIN_UDP, MAX_UDP),
        }
    }
}

/// Reads a packet that should be a question.
pub fn read(packet: &[u8]) -> Incoming {
    let mut decoder = BinDecoder::new(packet);
    let Ok(Header { metadata, counts }) = Header::read(&mut decoder) else {
        return Incoming::Silence;
    };
    if metadata.message_type == MessageType::Response {
        return Incoming::Silence;
    }
    let request = Request {
        metadata,
        edns: None,
    };
    if metadata.op_code != OpCode::Query {
        return Incoming::Bad(request, ResponseCode::NotImp);
    }
    // Looked at before anything is made room for: the numbers are the sender's.
    let is_question = counts.queries == 1
        && counts.answers == 0
        && counts.authorities == 0
        && counts.additionals <= MAX_ADDITIONAL;
    if !is_question {
        return Incoming::Bad(request, ResponseCode::FormErr);
    }
    match Message::from_vec(packet) {
        Ok(message) => read_question(metadata, message),
        Err(_) => Incoming::Bad(request, ResponseCode::FormErr),
    }
}

fn read_question(metadata: Metadata, mut message: Message) -> Incoming {
    let edns = message.edns.as_ref().map(|edns| Capability {
        payload: edns.max_payload(),
        signatures: edns.flags().dnssec_ok,
    });
    let request = Request { metadata, edns };
    if message.edns.is_some_and(|edns| edns.version() > 0) {
        return Incoming::Bad(request, ResponseCode::BADVERS);
    }
    match message.queries.pop() {
        Some(query) => Incoming::Question(request, query),
        None => Incoming::Bad(request, ResponseCode::FormErr),
    }
}

/// Writes an answer into `buffer`, in place of what is there. What does not fit is left out, of the
/// additional records silently, of others with a note (TC) that there is more over TCP.
pub fn write(
    request: &Request,
    query: Option<&Query>,
    reply: &Reply,
    (limit, buffer): (u16, &mut Vec<u8>),
) -> Result<(), ProtoError> {
    buffer.clear();
    let opt = request.edns.map(|edns| opt(edns, reply.code));
    let room = if opt.is_some() {
        limit - OPT_LENGTH
    } else {
        limit
    };
    let mut encoder = BinEncoder::new(buffer);
    encoder.set_max_size(room);
    let place = encoder.place::<Header>()?;
    encoder.emit_all(query.into_iter())?;
    let own: Vec<Own<'_>> = reply.data.iter().map(Own).collect();
    let (own, no_more) = emit(&mut encoder, &own)?;
    let (others, no_more) = if no_more {
        (0, true)
    } else {
        emit(&mut encoder, &reply.answers)?
    };
    let (authorities, no_more) = if no_more {
        (0, true)
    } else {
        emit(&mut encoder, &reply.authorities)?
    };
    let truncation = no_more || reply.truncated;
    let mut additionals = if truncation {
        0
    } else {
        emit(&mut encoder, &reply.additionals)?.0
    };
    encoder.set_max_size(limit);
    if let Some(opt) = &opt {
        opt.emit(&mut encoder)?;
        additionals += 1;
    }
    let mut metadata = Metadata::response_from_request(&request.metadata);
    metadata.response_code = reply.code;
    metadata.authoritative = reply.authoritative;
    metadata.authentic_data = reply.authentic;
    metadata.recursion_available = true;
    metadata.truncation = truncation;
    let counts = HeaderCounts {
        queries: u16::from(query.is_some()),
        answers: own + others,
        authorities,
        additionals,
    };
    place.replace(&mut encoder, Header { metadata, counts })?;
    encoder.trim();
    Ok(())
}

/// A record at the question's own name, which is where every message has it: what the library would search for once
/// more with every record.
struct Own<'a>(&'a RData);

impl BinEncodable for Own<'_> {
    fn emit(&self, encoder: &mut BinEncoder<'_>) -> Result<(), ProtoError> {
        encoder.emit_u16(QUESTIONS_NAME)?;
        self.0.record_type().emit(encoder)?;
        DNSClass::IN.emit(encoder)?;
        encoder.emit_u32(TTL)?;
        let length = encoder.place::<u16>()?;
        self.0.emit(encoder)?;
        let written = encoder.len_since_place(&length);
        length.replace(encoder, u16::try_from(written).unwrap_or(u16::MAX))
    }
}

/// Writes records while there is room: how many, and whether there was too little.
fn emit<R: BinEncodable>(
    encoder: &mut BinEncoder<'_>,
    records: &[R],
) -> Result<(u16, bool), ProtoError> {
    let (count, is_cut) = match encoder.emit_all(records.iter()) {
        Ok(count) => (count, false),
        Err(ProtoError::NotAllRecordsWritten { count, .. }) => (count, true),
        Err(error) => return Err(error),
    };
    Ok((u16::try_from(count).unwrap_or(u16::MAX), is_cut))
}

fn opt(asked: Capability, code: ResponseCode) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_UDP);
    edns.set_dnssec_ok(asked.signatures);
    edns.set_rcode_high(code.high());
    edns
}
