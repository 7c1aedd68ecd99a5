//! HTTP/2, frame by frame.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest wait; an event that has not happened by then never will.
pub(crate) const STUCK: Duration = Duration::from_secs(60);

/// A client of HTTP/2 that shows the frames it gets: type, flags, stream and payload.
pub(crate) struct Frames<T>(T);

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const CONTINUATION: u8 = 9;

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Frames<T> {
    pub(crate) async fn begin(io: T) -> Self {
        let mut this = Self(io);
        this.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        this.write(SETTINGS, 0, 0, &[]).await;
        this
    }

    /// A client whose streams get no byte of an answer.
    pub(crate) async fn begin_without_window(io: T) -> Self {
        let mut this = Self(io);
        this.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE
        this.write(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).await;
        this
    }

    pub(crate) async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        assert!(self.try_write(kind, flags, stream, payload).await, "the connection is gone");
    }

    /// GET, with headers that are in HPACK's static table or literal.
    pub(crate) async fn get(&mut self, stream: u32, path: &str) {
        // :method GET, :scheme https; :authority and :path are literals without indexing.
        let mut block = vec![0x82, 0x87];
        for (name, value) in [(0x01, "localhost"), (0x04, path)] {
            block.push(name);
            block.push(u8::try_from(value.len()).unwrap());
            block.extend(value.as_bytes());
        }
        self.write(HEADERS, END_HEADERS | END_STREAM, stream, &block).await;
    }

    /// Returns false once the server does not take it any more.
    pub(crate) async fn try_write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).await.is_ok() && self.0.flush().await.is_ok()
    }

    /// The next frame; none when the server has closed the connection in order. Answers what has to be answered.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        if let Err(error) = tokio::time::timeout(STUCK, self.0.read_exact(&mut head)).await.expect("a frame")
        {
            // Without TLS's own end this would be another error: what was cut off cannot be told from what ended.
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
            assert!(!error.to_string().contains("close_notify"), "{error}");
            return None;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.unwrap();
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => self.write(SETTINGS, ACK, 0, &[]).await,
            PING if frame.flags & ACK == 0 => self.write(PING, ACK, 0, &frame.payload.clone()).await,
            _ => {}
        }
        Some(frame)
    }

    pub(crate) async fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().await.expect("the connection ended too early");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Reads to the end of the connection.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut all = Vec::new();
        while let Some(frame) = self.next().await {
            all.push(frame);
        }
        all
    }
}

/// A GOAWAY without an error, as every other: the last stream that was, or may still be, answered, and the code.
pub(crate) fn goaways(frames: &[Frame]) -> Vec<(u32, u32)> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let goaways = frames.iter().filter(|frame| frame.kind == GOAWAY);
    goaways.map(|frame| (number(&frame.payload[..4]), number(&frame.payload[4..8]))).collect()
}
