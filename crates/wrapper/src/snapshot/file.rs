//! The file: written record by record, read only after all of it has been found whole.

use super::image::{Image, Record};
use super::{FILE, NEW, SET_ASIDE, private};
use crate::discovery::Discovered;
use crate::index::slice_entry::Compressed;
use crate::kinds::ServedKind;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

const MAGIC: &[u8] = b"edgegrid wrapper view 1\n";
const META: u8 = b'm';
const OBJECT: u8 = b'o';
const SET: u8 = b'n';
const STAMPED: u8 = b't';
const SLICE: u8 = b's';
const ENDPOINTS: u8 = b'e';
const DISCOVERY: u8 = b'd';
const END: u8 = b'z';
/// Nothing that is written is as long.
const MAX_RECORD_BYTES: usize = 64 << 20;

/// Why a snapshot was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damaged {
    #[error("read the snapshot")]
    Unreadable(#[from] io::Error),
    #[error("{0}")]
    Wrong(String),
}

/// A snapshot that was not written, and how much of it went to disk all the same.
#[derive(Debug, thiserror::Error)]
#[error("write the snapshot")]
pub(crate) struct NotSaved {
    pub(crate) bytes: u64,
    #[source]
    pub(crate) source: io::Error,
}

/// Writes a snapshot in place of the old one; gives its size.
pub(crate) fn save(folder: &Path, image: &Image) -> Result<u64, NotSaved> {
    let mut bytes = 0;
    let saved = save_counting(folder, image, &mut bytes);
    saved.map(|()| bytes).map_err(|source| {
        // A part of it would take the room that the next try needs; if even that fails, the next
        // try replaces it.
        let _ = fs::remove_file(folder.join(NEW));
        NotSaved { bytes, source }
    })
}

fn save_counting(folder: &Path, image: &Image, bytes: &mut u64) -> io::Result<()> {
    private::create_folder(folder)?;
    let new = folder.join(NEW);
    let mut out = Summing {
        inner: BufWriter::new(Counting {
            inner: private::create_file(&new)?,
            bytes,
        }),
        sum: Sha256::new(),
    };
    write(&mut out, image)?;
    let Summing { mut inner, sum } = out;
    inner.write_all(&[END])?;
    inner.write_all(&sum.finalize())?;
    let file = inner.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.inner.sync_all()?;
    fs::rename(&new, folder.join(FILE))?;
    File::open(folder)?.sync_all()
}

/// Removes the snapshot of a folder, and what may be half written of the next one.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let _ = fs::remove_file(folder.join(NEW));
    match fs::remove_file(folder.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => File::open(folder)?.sync_all(),
    }
}

/// Reads the snapshot of a folder, record by record; nothing if there is none. A damaged one is
/// set aside, and none of its records is given.
pub(crate) fn load(
    folder: &Path,
    take: &mut dyn FnMut(Record) -> Result<(), String>,
) -> Result<bool, Damaged> {
    let file = match File::open(folder.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let outcome = read(file, take);
    if let Err(Damaged::Wrong(_)) = &outcome {
        // Kept for whoever wants to know; if even that fails, the next snapshot replaces it.
        let _ = fs::rename(folder.join(FILE), folder.join(SET_ASIDE));
    }
    outcome.map(|()| true)
}

/// Reads a snapshot out of any file.
pub(super) fn read<F: Read + Seek>(
    file: F,
    take: &mut dyn FnMut(Record) -> Result<(), String>,
) -> Result<(), Damaged> {
    let mut file = BufReader::new(file);
    check(&mut file)?;
    file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
    while let Some(record) = record(&mut file)? {
        take(record).map_err(Damaged::Wrong)?;
    }
    Ok(())
}

fn write(out: &mut impl Write, image: &Image) -> io::Result<()> {
    out.write_all(MAGIC)?;
    put(out, META, &[&serde_json::to_vec(&image.meta)?])?;
    for (kind, entry) in &image.objects {
        put(out, OBJECT, &[&[*kind as u8], entry.value()])?;
    }
    for set in &image.sets {
        put(out, SET, &[&serde_json::to_vec(set)?])?;
    }
    for sets in &image.stamped {
        put(out, STAMPED, &[&serde_json::to_vec(sets)?])?;
    }
    for (kind, entry) in &image.entries {
        let tag = if *kind == ServedKind::Slices {
            SLICE
        } else {
            ENDPOINTS
        };
        put(out, tag, &[entry.bytes()])?;
    }
    for (question, answer) in &image.discovery {
        let head = serde_json::to_vec(&(question, &answer.head))?;
        let length = u32::try_from(head.len()).map_err(io::Error::other)?;
        let parts: [&[u8]; 3] = [&length.to_le_bytes(), &head, answer.body.bytes()];
        put(out, DISCOVERY, &parts)?;
    }
    Ok(())
}

fn put(out: &mut impl Write, tag: u8, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).map_err(io::Error::other)?;
    out.write_all(&[tag])?;
    out.write_all(&length.to_le_bytes())?;
    parts.iter().try_for_each(|part| out.write_all(part))
}

/// Goes through all of it once and compares the sum.
fn check(file: &mut (impl Read + Seek)) -> Result<(), Damaged> {
    let wrong = |why: &str| Damaged::Wrong(why.to_owned());
    let length = file.seek(SeekFrom::End(0))?;
    let body = length.checked_sub(33).ok_or_else(|| wrong("too short"))?;
    file.rewind()?;
    let mut magic = [0; MAGIC.len()];
    file.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Err(wrong("of another kind or version"));
    }
    file.rewind()?;
    let mut sum = Sha256::new();
    let mut rest = file.take(body);
    let mut buffer = [0; 8192];
    loop {
        match rest.read(&mut buffer)? {
            0 => break,
            read => sum.update(&buffer[..read]),
        }
    }
    let mut end = [0; 33];
    rest.into_inner().read_exact(&mut end)?;
    if end[0] != END || end[1..] != sum.finalize()[..] {
        return Err(wrong("the sum does not fit"));
    }
    Ok(())
}

/// The next record; none at the end.
fn record(file: &mut impl Read) -> Result<Option<Record>, Damaged> {
    let wrong = |why: String| Damaged::Wrong(why);
    let mut tag = [0];
    file.read_exact(&mut tag)?;
    if tag[0] == END {
        return Ok(None);
    }
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_RECORD_BYTES {
        return Err(wrong("a record without end".to_owned()));
    }
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    let json = |error: serde_json::Error| wrong(error.to_string());
    Ok(Some(match (tag[0], bytes.split_first()) {
        (META, _) => Record::Meta(serde_json::from_slice(&bytes).map_err(json)?),
        (SET, _) => Record::Set(serde_json::from_slice(&bytes).map_err(json)?),
        (STAMPED, _) => Record::Stamped(serde_json::from_slice(&bytes).map_err(json)?),
        (SLICE, _) => Record::SliceEntry(ServedKind::Slices, Compressed::from_bytes(&bytes)),
        (ENDPOINTS, _) => Record::SliceEntry(ServedKind::Endpoints, Compressed::from_bytes(&bytes)),
        (OBJECT, Some((kind, text))) => {
            let kind = ServedKind::ALL.get(usize::from(*kind));
            let kind = kind.ok_or_else(|| wrong("an object of no kind".to_owned()))?;
            Record::Object(*kind, text.to_vec())
        }
        (DISCOVERY, _) => discovery(&bytes)?,
        (tag, _) => return Err(wrong(format!("a record of type {tag}"))),
    }))
}

/// An answer: how long its head is, the head, the body.
fn discovery(bytes: &[u8]) -> Result<Record, Damaged> {
    let wrong = || Damaged::Wrong("an answer without a head".to_owned());
    let (length, rest) = bytes.split_first_chunk().ok_or_else(wrong)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (head, body) = rest.split_at_checked(length).ok_or_else(wrong)?;
    let (question, head) =
        serde_json::from_slice(head).map_err(|error| Damaged::Wrong(error.to_string()))?;
    let body = Compressed::from_bytes(body);
    Ok(Record::Discovery(question, Discovered { head, body }))
}

/// Writes on and sums up.
struct Summing<W> {
    inner: W,
    sum: Sha256,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes on and counts what went through.
struct Counting<'a> {
    inner: File,
    bytes: &'a mut u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        *self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
