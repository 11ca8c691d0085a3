//! The thread that reads a recording: gives each request its connection, its database and its time.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use super::block::{Block, Item};
use super::setting::Speed;
use machine::this_thread::Usage;
use recording::commands::{Meaning, meaning};
use recording::omission::{Omissions, Reason};
use recording::recording::{Next, Recording};
use recording::request::{Request, push_length, push_number, push_word};
use recording::timing::{Backward, Timing};
use text::failure::Failure;

/// So many clients are told apart; those after them share connections by their hash.
const MOST_CLIENTS: usize = 1 << 16;
/// So many commands are told apart in results; the last stands for all others.
const MOST_COMMANDS: usize = 256;
/// A row of a trace may stand for so many requests.
const MOST_TIMES: u64 = 1_000_000;
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// Commands whose null says that a key was not there.
const READING: [&str; 4] = ["get", "hget", "getex", "getdel"];

/// To one thread, and back from it.
pub struct Outlet {
    pub blocks: SyncSender<Block>,
    pub spare: Receiver<Block>,
    pub block: Block,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Requests in the part of the recording that was read.
    pub requests: u64,
    /// Of these, handed to the threads.
    pub handed: u64,
    pub bytes: u64,
    pub omissions: Omissions,
    pub backward: Backward,
    /// Of the last request since the first.
    pub recorded_ns: u64,
    /// How many different clients it has; none when it does not name clients.
    pub clients: Option<usize>,
    /// The names of the commands.
    pub commands: Vec<String>,
    pub cpu_ns: u64,
    /// Why it ended before the end of the recording.
    pub broken: Option<Failure>,
}

/// What is read, and until when.
pub struct Limits {
    pub requests: u64,
    /// Of the time of the replay.
    pub ns: u64,
}

pub struct Reader {
    recording: Recording,
    timing: Option<Timing>,
    speed: Speed,
    limits: Limits,
    connections: usize,
    outlets: Vec<Outlet>,
    /// The connection of each client.
    clients: HashMap<u64, usize>,
    /// The database of each connection.
    databases: Vec<u64>,
    /// The numbers of commands by their names as recorded, and whether they read.
    commands: HashMap<Vec<u8>, (u16, bool)>,
    /// Clients that sent MULTI and nothing since.
    begun: HashSet<u64>,
    reading: Reading,
}

impl Reader {
    pub fn new(
        recording: Recording,
        timing: Option<Timing>,
        speed: Speed,
        limits: Limits,
        connections: usize,
        outlets: Vec<Outlet>,
    ) -> Reader {
        Reader {
            recording,
            timing,
            speed,
            limits,
            connections,
            outlets,
            clients: HashMap::new(),
            databases: vec![0; connections],
            commands: HashMap::new(),
            begun: HashSet::new(),
            reading: Reading::default(),
        }
    }

    /// Read to the end of the recording or of the limits, or until `stopped`.
    pub fn run(mut self, stopped: &AtomicBool) -> Reading {
        let mut request = Request::default();
        if let Err(failure) = self.read(&mut request, stopped) {
            self.reading.broken = Some(failure);
        }
        let ended = !stopped.load(Ordering::Relaxed);
        for at in 0..self.outlets.len() {
            if ended {
                self.hand_over(at);
            }
        }
        let place = self.recording.place();
        for _ in 0..self.begun.len() {
            self.reading.omissions.add(Reason::Cut, || place.clone());
        }
        self.reading.bytes = self.recording.bytes();
        self.reading.backward = self.timing.map(|timing| timing.backward).unwrap_or_default();
        self.reading.clients = self.recording.has_clients().then_some(self.clients.len());
        self.reading.cpu_ns = Usage::of_this_thread().cpu_ns();
        self.reading
    }

    fn read(&mut self, request: &mut Request, stopped: &AtomicBool) -> Result<(), Failure> {
        while self.reading.handed < self.limits.requests && !stopped.load(Ordering::Relaxed) {
            match self.recording.next(request)? {
                Next::End => return Ok(()),
                Next::Broken(failure) => return Err(failure),
                Next::LeftOut(reason) => {
                    self.reading.requests += 1;
                    self.reading.omissions.add(reason, || self.recording.place());
                }
                Next::Request if request.times == 0 || request.times > MOST_TIMES => {
                    self.reading.requests += 1;
                    self.reading.omissions.add(Reason::Unreadable, || self.recording.place());
                }
                Next::Request => {
                    if !self.take(request)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Hand over `request`, as often as it is to be sent; whether there is time for more.
    fn take(&mut self, request: &mut Request) -> Result<bool, Failure> {
        let due_ns = match (&mut self.timing, request.at_ns, self.speed.times()) {
            (Some(timing), Some(at_ns), Some(times)) => {
                let since_ns = timing.due_ns(at_ns, || self.recording.place())?;
                self.reading.recorded_ns = since_ns;
                (since_ns as f64 / times) as u64
            }
            _ => 0,
        };
        if due_ns >= self.limits.ns {
            return Ok(false);
        }
        self.reading.requests += request.times;
        if meaning(&request.name) == Meaning::Begin && self.begun.len() < MOST_CLIENTS {
            // The commands of a transaction are recorded when it is executed, so it begins with them: others may
            // share its connection meanwhile.
            self.begun.insert(request.client);
            return Ok(true);
        }
        let connection = self.connection(request.client);
        let (command, reads) = self.command(&request.name);
        if !self.begun.is_empty() && self.begun.remove(&request.client) {
            let (multi, _) = self.command(b"MULTI");
            let item = Item { token: 0, command: multi, unasked: 0, reads: false, bytes: 0, due_ns };
            self.push(connection, request.database, MULTI, item);
        }
        let item = Item { token: 0, command, unasked: 0, reads, bytes: 0, due_ns };
        Ok((0..request.times).all(|_| self.push(connection, request.database, &request.bytes, item)))
    }

    /// Append a request to the block of its thread; whether the thread takes more.
    fn push(&mut self, connection: usize, database: u64, bytes: &[u8], item: Item) -> bool {
        let threads = self.outlets.len();
        let (thread, token) = (connection % threads, (connection / threads) as u32);
        let block = &mut self.outlets[thread].block;
        let begin = block.bytes.len();
        let is_elsewhere = std::mem::replace(&mut self.databases[connection], database) != database;
        if is_elsewhere {
            let mut number = Vec::with_capacity(20);
            push_number(&mut number, database);
            push_length(&mut block.bytes, b'*', 2);
            push_word(&mut block.bytes, b"SELECT");
            push_word(&mut block.bytes, &number);
        }
        block.bytes.extend_from_slice(bytes);
        let bytes = block.bytes.len() - begin;
        block.items.push(Item { token, unasked: u8::from(is_elsewhere), bytes, ..item });
        self.reading.handed += 1;
        !block.is_full() || self.hand_over(thread)
    }

    /// Hand over the block of a thread; whether the thread is still there.
    fn hand_over(&mut self, thread: usize) -> bool {
        let outlet = &mut self.outlets[thread];
        let spare = outlet.spare.try_recv().unwrap_or_default();
        let block = std::mem::replace(&mut outlet.block, spare);
        match outlet.blocks.try_send(block) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(block)) => {
                // While it waits, the others shall have what was read for them.
                for other in (0..self.outlets.len()).filter(|other| *other != thread) {
                    let outlet = &mut self.outlets[other];
                    let part = std::mem::take(&mut outlet.block);
                    if let Err(TrySendError::Full(part) | TrySendError::Disconnected(part)) =
                        outlet.blocks.try_send(part)
                    {
                        outlet.block = part;
                    }
                }
                self.outlets[thread].blocks.send(block).is_ok()
            }
        }
    }

    /// The connection of a client: in turn, so that each has about as many.
    fn connection(&mut self, client: u64) -> usize {
        let known = self.clients.len();
        if !self.recording.has_clients() || known >= MOST_CLIENTS && !self.clients.contains_key(&client) {
            return (client % self.connections as u64) as usize;
        }
        *self.clients.entry(client).or_insert(known % self.connections)
    }

    /// The number of a command among those of the results, and whether it reads.
    fn command(&mut self, name: &[u8]) -> (u16, bool) {
        if let Some(known) = self.commands.get(name) {
            return *known;
        }
        let text: String = String::from_utf8_lossy(&name[..name.len().min(40)])
            .to_lowercase()
            .chars()
            .map(|letter| if letter.is_control() { '?' } else { letter })
            .collect();
        let names = &mut self.reading.commands;
        let at = match names.iter().position(|other| *other == text) {
            Some(at) => at,
            None if names.len() < MOST_COMMANDS - 1 => {
                names.push(text.clone());
                names.len() - 1
            }
            None => {
                if names.len() < MOST_COMMANDS {
                    names.push("others".to_owned());
                }
                MOST_COMMANDS - 1
            }
        };
        let known = (at as u16, READING.contains(&&*text));
        if self.commands.len() < 4 * MOST_COMMANDS {
            self.commands.insert(name.to_vec(), known);
        }
        known
    }
}
