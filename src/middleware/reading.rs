//! Bodies that have to be read whole: bounded, and decoded.

use std::io::Read;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;

use super::body::BoxError;

/// Why a body could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It is longer than the limit.
    TooLarge,
    /// Nothing came for too long.
    Idle,
    /// It broke off.
    Broken(BoxError),
}

/// Reads a body of at most `limit` bytes. `idle` bounds the time between two pieces of it.
pub(super) async fn read<B>(body: B, limit: usize, idle: Duration) -> Result<Bytes, ReadError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    if usize::try_from(body.size_hint().lower()).is_ok_and(|lower| lower > limit) {
        return Err(ReadError::TooLarge);
    }
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(idle, body.frame()).await.map_err(|_| ReadError::Idle)?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|error| ReadError::Broken(error.into()))?.into_data() else { continue };
        if first.len() + more.len() + data.len() > limit {
            return Err(ReadError::TooLarge);
        }
        // Most bodies come in one piece: it is used as it is.
        match (first.is_empty(), more.is_empty()) {
            (true, true) => first = data,
            _ => {
                if more.is_empty() {
                    more.extend_from_slice(&std::mem::take(&mut first));
                }
                more.extend_from_slice(&data);
            }
        }
    }
    Ok(if more.is_empty() { first } else { more.freeze() })
}

/// The first bytes of a body that are more than white space; all of it, where there are none.
pub(super) async fn first_piece<B>(body: &mut B, idle: Duration) -> Result<Bytes, ReadError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut first = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(idle, body.frame()).await.map_err(|_| ReadError::Idle)?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|error| ReadError::Broken(error.into()))?.into_data() else { continue };
        if first.is_empty() && !data.trim_ascii().is_empty() {
            return Ok(data);
        }
        first.extend_from_slice(&data);
        if !first.trim_ascii().is_empty() || first.len() > BLANK {
            break;
        }
    }
    Ok(first.freeze())
}

/// So much white space in front of anything is not waited through.
const BLANK: usize = 64 * 1024;

/// Whether what begins so may be read as a JSON object or array, by a reader who takes other encodings than UTF-8 too.
pub(super) fn may_be_json(first: &[u8]) -> bool {
    // A byte order mark, and the zeros of UTF-16 and UTF-32, say nothing of what follows.
    let mark = [&b"\xef\xbb\xbf"[..], b"\xfe\xff", b"\xff\xfe"].into_iter().find(|mark| first.starts_with(mark));
    let begins = &first[mark.map_or(0, <[u8]>::len)..];
    let mut bytes = begins.iter().filter(|byte| **byte != 0 && !byte.is_ascii_whitespace());
    matches!(bytes.next(), None | Some(b'{' | b'['))
}

/// The charset that a body is said to be in, where that is none in which ASCII reads as itself: express reads JSON in UTF-7 too, where a
/// call looks like none.
pub(super) fn odd_charset(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(header::CONTENT_TYPE).iter();
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase()).collect();
    let parameters = values.iter().flat_map(|value| value.split([';', ','])).filter_map(|pair| pair.split_once('='));
    let charsets = parameters.filter(|(name, _)| name.trim() == "charset").map(|(_, charset)| charset);
    let charsets = charsets.map(|charset| charset.trim_matches(['"', ' ', '\t']));
    let plain = |charset: &str| {
        matches!(charset, "" | "utf-8" | "utf8" | "us-ascii" | "ascii" | "latin1")
            || charset.starts_with("iso-8859-")
            || charset.starts_with("windows-125")
    };
    charsets.filter(|charset| !plain(charset)).map(str::to_owned).next()
}

/// Whether a body is a stream of events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// The encoding of a body, where it has one.
pub(super) fn encoding(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let encoding = values.next()?.to_str().unwrap_or("unreadable").trim();
    // Several of them stand for nested encodings, which nobody uses here.
    let encoding = if values.next().is_some() { "nested" } else { encoding };
    (!encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity")).then_some(encoding)
}

/// Decodes a body; `None` where the encoding is unknown, the bytes are damaged, or more than `limit` bytes come out.
pub fn decode(encoding: &str, bytes: &[u8], limit: usize) -> Option<Bytes> {
    let most = limit as u64 + 1;
    let mut out = Vec::new();
    let read = match encoding.to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => flate2::read::MultiGzDecoder::new(bytes).take(most).read_to_end(&mut out),
        "deflate" => flate2::read::ZlibDecoder::new(bytes).take(most).read_to_end(&mut out),
        _ => return None,
    };
    (read.is_ok() && out.len() <= limit).then(|| out.into())
}
