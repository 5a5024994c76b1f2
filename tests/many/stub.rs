//! A server of chat completions on loopback: one thread a connection, kept alive, answering what a
//! test makes it answer. It can hold its answers back from a certain request on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What the server does with a request.
pub enum Reply {
    /// A status, more headers (each closed by CRLF) and a body.
    Send(u16, String, String),
    /// The first half of an answer, then the end of the connection.
    Cut(String),
    /// The end of the connection, without a word.
    Close,
    /// Nothing, until the client gives up.
    Silent,
}

/// What was sent to it.
pub struct Heard<'a> {
    pub head: &'a str,
    pub body: &'a str,
}

pub struct Stub {
    pub base_url: String,
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    count: AtomicUsize,
    gate: Mutex<Gate>,
    bell: Condvar,
}

/// Requests from this ordinal on are held.
#[derive(Default)]
struct Gate {
    from: Option<usize>,
    held: usize,
}

impl Stub {
    /// Answers each request with what `play` makes of its ordinal and of what was sent.
    pub fn new(play: impl Fn(usize, &Heard) -> Reply + Send + Sync + 'static) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (shared, play) = (Arc::new(Shared::default()), Arc::new(play));
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, play, stream) = (Arc::clone(&ours), Arc::clone(&play), stream.unwrap());
                // The client may hang up at any moment.
                std::thread::spawn(move || drop(serve(stream, &shared, &*play)));
            }
        });
        Stub { base_url: format!("http://{address}/v1"), address, shared }
    }

    /// Requests so far.
    pub fn count(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// Holds every answer from the `more`th request from now on.
    pub fn hold_after(&self, more: usize) {
        let mut gate = self.shared.gate.lock().unwrap();
        (gate.from, gate.held) = (Some(self.count() + more), 0);
    }

    /// Waits until an answer is held.
    pub fn wait_for_held(&self) {
        let gate = self.shared.gate.lock().unwrap();
        drop(self.shared.bell.wait_while(gate, |gate| gate.held == 0).unwrap());
    }

    /// Lets go what is held; how many that are.
    pub fn release(&self) -> usize {
        let mut gate = self.shared.gate.lock().unwrap();
        gate.from = None;
        self.shared.bell.notify_all();
        gate.held
    }
}

fn serve(mut stream: TcpStream, shared: &Shared, play: &dyn Fn(usize, &Heard) -> Reply) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::with_capacity(16 << 10);
    while let Some((head, end)) = request(&mut stream, &mut bytes)? {
        let heard = Heard {
            head: std::str::from_utf8(&bytes[..head]).unwrap(),
            body: std::str::from_utf8(&bytes[head..end]).unwrap(),
        };
        let ordinal = shared.count.fetch_add(1, Ordering::SeqCst);
        pass(shared, ordinal);
        let answer = play(ordinal, &heard);
        bytes.drain(..end);
        match answer {
            Reply::Send(status, headers, body) => {
                let length = body.len();
                let text = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
                stream.write_all(text.as_bytes())?;
            }
            Reply::Cut(body) => {
                let length = body.len();
                let half = &body[..length / 2];
                stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{half}").as_bytes())?;
                return Ok(());
            }
            Reply::Close => return Ok(()),
            Reply::Silent => {
                while stream.read(&mut [0; 64])? > 0 {}
                return Ok(());
            }
        }
    }
    Ok(())
}

fn pass(shared: &Shared, ordinal: usize) {
    let mut gate = shared.gate.lock().unwrap();
    let holds = |gate: &Gate| gate.from.is_some_and(|from| ordinal >= from);
    if holds(&gate) {
        gate.held += 1;
        shared.bell.notify_all();
        drop(shared.bell.wait_while(gate, |gate| holds(gate)).unwrap());
    }
}

/// Reads until a whole request stands in `bytes`: where its head ends, and its body.
fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<Option<(usize, usize)>> {
    let mut piece = [0; 16 << 10];
    loop {
        if let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) {
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
            let end = head + length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
            while bytes.len() < end {
                match stream.read(&mut piece)? {
                    0 => return Ok(None),
                    read => bytes.extend(&piece[..read]),
                }
            }
            return Ok(Some((head, end)));
        }
        match stream.read(&mut piece)? {
            0 => return Ok(None),
            read => bytes.extend(&piece[..read]),
        }
    }
}

/// A whole answer.
pub fn says(content: &str) -> Reply {
    Reply::Send(200, String::new(), completion(content))
}

/// The body of an answer, of nine tokens by its own word.
pub fn completion(content: &str) -> String {
    let usage = serde_json::json!({"prompt_tokens": 40, "completion_tokens": 9});
    serde_json::json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}], "usage": usage})
        .to_string()
}

/// An address on which nobody listens: a free port could be taken by a server of another test.
pub fn nobody() -> String {
    "http://127.0.0.1:1/v1".into()
}
