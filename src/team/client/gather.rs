//! A connection that sends a request in one piece. ureq writes head and body apart, looks at the
//! socket both before it puts a connection away and when it takes it out again, and sets a new time
//! limit for every read and write: eleven system calls a request, where five do.

use std::time::Duration;
use ureq::Error;
use ureq::unversioned::transport::time::Duration as Limit;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport};

/// Opens connections as ureq does by default, and gathers what is sent over them.
#[derive(Debug, Default)]
pub(super) struct Gathering(DefaultConnector);

impl Connector for Gathering {
    type Out = Gathered;

    fn connect(&self, details: &ConnectionDetails, chained: Option<()>) -> Result<Option<Gathered>, Error> {
        let opened = self.0.connect(details, chained)?;
        Ok(opened.map(|opened| Gathered { opened, begun: Vec::new(), heard: false }))
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Gathered {
    opened: Box<dyn Transport>,
    /// The beginning of a request, not sent yet: it goes out with what is written next.
    begun: Vec<u8>,
    /// Whether something was read since the socket was last looked at.
    heard: bool,
}

impl Gathered {
    /// Sends what was begun, alone.
    fn send_begun(&mut self, timeout: NextTimeout) -> Result<(), Error> {
        let begun = std::mem::take(&mut self.begun);
        if begun.is_empty() {
            return Ok(());
        }
        self.opened.buffers().output()[..begun.len()].copy_from_slice(&begun);
        self.opened.transmit_output(begun.len(), timeout)
    }
}

impl Transport for Gathered {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.opened.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let (timeout, begun) = (rounded(timeout), self.begun.len());
        let output = self.opened.buffers().output();
        if begun == 0 && amount < output.len() / 2 {
            self.begun.extend_from_slice(&output[..amount]);
            return Ok(());
        }
        if begun + amount <= output.len() {
            output.copy_within(..amount, begun);
            output[..begun].copy_from_slice(&self.begun);
            self.begun.clear();
            return self.opened.transmit_output(begun + amount, timeout);
        }
        let next = output[..amount].to_vec();
        self.send_begun(timeout)?;
        self.opened.buffers().output()[..amount].copy_from_slice(&next);
        self.opened.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = rounded(timeout);
        self.send_begun(timeout)?;
        self.heard = self.opened.await_input(timeout)?;
        Ok(self.heard)
    }

    /// What a server sends unasked is seen when the connection is taken out of the pool: the look
    /// before it is put there is not needed.
    fn is_open(&mut self) -> bool {
        std::mem::take(&mut self.heard) || self.opened.is_open()
    }

    fn is_tls(&self) -> bool {
        self.opened.is_tls()
    }
}

/// A limit in whole seconds, from above: one that is the same as the last is not set again.
fn rounded(timeout: NextTimeout) -> NextTimeout {
    let after = match timeout.after {
        Limit::Exact(exact) if exact.subsec_nanos() > 0 => Limit::Exact(Duration::from_secs(exact.as_secs() + 1)),
        whole => whole,
    };
    NextTimeout { after, ..timeout }
}
