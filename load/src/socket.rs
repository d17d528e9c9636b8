//! One connection to the relay: open, receive until a moment, send.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use tungstenite::client::IntoClientRequest;
use tungstenite::error::UrlError;
use tungstenite::http::Uri;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Error, HandshakeError, Message, WebSocket, client_tls};

/// For each step of opening, and for a send: a busy relay may take a while, a dead one must not hold
/// the client for good.
const IO_LIMIT: Duration = Duration::from_secs(15);
/// The shortest wait of a socket; zero would mean for ever.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Reported in place of a code when there is none.
const NO_CODE: u16 = 1006;

/// An open connection.
pub struct Socket(WebSocket<MaybeTlsStream<TcpStream>>);

/// What came.
pub enum Received {
    /// A binary frame.
    Binary(Vec<u8>),
    /// The connection ended, with a close code or 1006.
    Closed(u16),
    /// A text frame.
    Text(String),
    /// Nothing until the moment, or something that is no one's business here.
    Nothing,
}

impl Socket {
    /// Connects. The error is a cause to be counted, without the address: it holds a token.
    pub fn open(url: &str) -> Result<Self, String> {
        let stream = connect(url)?;
        let request = url.into_client_request().map_err(|error| cause(&error))?;
        match client_tls(request, stream) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(HandshakeError::Failure(error)) => Err(cause(&error)),
            Err(HandshakeError::Interrupted(_)) => Err("timeout".to_owned()),
        }
    }

    /// Waits for a frame until a moment.
    pub fn receive(&mut self, until: Instant) -> Received {
        let wait = until.saturating_duration_since(Instant::now()).max(SHORTEST_WAIT);
        if self.tcp().is_none_or(|tcp| tcp.set_read_timeout(Some(wait)).is_err()) {
            return Received::Closed(NO_CODE);
        }
        match self.0.read() {
            Ok(Message::Binary(bytes)) => Received::Binary(bytes.into()),
            Ok(Message::Text(text)) => Received::Text(text.as_str().to_owned()),
            Ok(Message::Close(frame)) => Received::Closed(frame.map_or(NO_CODE, |frame| frame.code.into())),
            Ok(_) => Received::Nothing,
            Err(Error::Io(error))
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                Received::Nothing
            }
            Err(_) => Received::Closed(NO_CODE),
        }
    }

    /// Sends a binary frame; false when the connection is gone.
    pub fn send(&mut self, frame: Vec<u8>) -> bool {
        self.0.send(Message::binary(frame)).is_ok()
    }

    /// Sends a text frame; false when the connection is gone.
    pub fn send_text(&mut self, text: String) -> bool {
        self.0.send(Message::text(text)).is_ok()
    }

    /// Says that the connection is not needed any more, and waits for the answer for a moment.
    pub fn close(mut self) {
        let done = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        // A connection that is gone is closed as well.
        let _gone = self.0.close(Some(done));
        let limit = Instant::now() + Duration::from_secs(1);
        while Instant::now() < limit && !matches!(self.receive(limit), Received::Closed(_)) {}
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self.0.get_ref() {
            MaybeTlsStream::Plain(tcp) => Some(tcp),
            MaybeTlsStream::Rustls(tls) => Some(&tls.sock),
            _ => None,
        }
    }
}

fn connect(url: &str) -> Result<TcpStream, String> {
    let uri: Uri = url.parse().map_err(|_| "not an address".to_owned())?;
    let host = uri.host().ok_or("not an address")?.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("wss") { 443 } else { 80 });
    let mut found = (host, port).to_socket_addrs().map_err(|_| "dns".to_owned())?;
    let address = found.next().ok_or("dns")?;
    let stream = TcpStream::connect_timeout(&address, IO_LIMIT).map_err(|error| error.kind().to_string())?;
    let set = stream
        .set_read_timeout(Some(IO_LIMIT))
        .and_then(|()| stream.set_write_timeout(Some(IO_LIMIT)))
        .and_then(|()| stream.set_nodelay(true));
    set.map(|()| stream).map_err(|error| error.kind().to_string())
}

fn cause(error: &Error) -> String {
    match error {
        Error::Http(answer) => format!("http {}", answer.status().as_u16()),
        Error::Io(error) => error.kind().to_string(),
        Error::Tls(error) => format!("tls: {error}"),
        Error::Url(UrlError::TlsFeatureNotEnabled) => "no tls".to_owned(),
        _ => "no websocket".to_owned(),
    }
}
