//! A pseudo terminal on which the driver runs as on a real one, and what can be read on its screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::heed;

const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that runs on a terminal of its own; stdout is a pipe.
pub struct OnTerminal {
    process: Process,
    keyboard: File,
    /// The end that the program has, kept open so that its settings can be read.
    far_end: File,
    settings: libc::termios,
    output: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    result: JoinHandle<String>,
}

/// How a program ended.
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    /// All that the terminal got.
    pub output: String,
    /// Whether the settings of the terminal are what they were before.
    pub is_as_before: bool,
}

fn settings_of(terminal: &File) -> libc::termios {
    // SAFETY: an all-zero termios is valid, and the call writes it.
    unsafe {
        let mut settings = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut settings), 0);
        settings
    }
}

fn modes(settings: &libc::termios) -> [libc::tcflag_t; 4] {
    [settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag]
}

/// Both ends of a new pseudo terminal.
fn ends() -> (File, File) {
    let size = libc::winsize { ws_row: ROWS as u16, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut here, mut there) = (0, 0);
    // SAFETY: both descriptors are written by the call and owned below; the null pointers are allowed.
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut here, &mut there, null, null.cast(), (&raw const size).cast_mut()), 0);
        (File::from_raw_fd(here), File::from_raw_fd(there))
    }
}

impl OnTerminal {
    /// Run `speedbench` with `words`.
    pub fn run(words: &[&str]) -> OnTerminal {
        let (keyboard, far_end) = ends();
        let mut command = Command::new(env!("CARGO_BIN_EXE_speedbench"));
        let of_far_end = || Stdio::from(far_end.try_clone().unwrap());
        command.args(words).stdin(of_far_end()).stderr(of_far_end()).stdout(Stdio::piped());
        [libc::SIGINT, libc::SIGTERM].iter().for_each(|signal| heed(&mut command, *signal));
        let lead = || {
            // SAFETY: both calls may be made between fork and exec; stdin is the terminal by then.
            unsafe {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
            }
            Ok(())
        };
        // SAFETY: it calls nothing but these.
        unsafe { command.pre_exec(lead) };
        let settings = settings_of(&far_end);
        let mut child = command.spawn().unwrap();
        drop(command);
        let (output, mut screen) = (Arc::new(Mutex::new(Vec::new())), keyboard.try_clone().unwrap());
        let (copy, mut pipe) = (output.clone(), child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            // Reading ends in an error when nobody has the other end any more.
            while let Ok(received @ 1..) = screen.read(&mut chunk) {
                copy.lock().unwrap().extend_from_slice(&chunk[..received]);
            }
        });
        let result = thread::spawn(move || {
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            text
        });
        OnTerminal { process: Process(child), keyboard, far_end, settings, output, reader, result }
    }

    /// The rows of the screen as they are now.
    pub fn rows(&self) -> Vec<String> {
        rows(&String::from_utf8_lossy(&self.output.lock().unwrap()))
    }

    /// Wait until a row of a page that is whole has what `wanted` looks for; that row.
    pub fn await_row(&self, wanted: impl Fn(&str) -> bool) -> String {
        let (deadline, mut bytes) = (Instant::now() + Duration::from_secs(100), 0);
        loop {
            let before = std::mem::replace(&mut bytes, self.output.lock().unwrap().len());
            let rows = self.rows();
            // A screen is written at once, so it is complete when no more bytes have arrived for a while.
            if let (true, Some(row)) = (before == bytes, rows.iter().find(|row| wanted(row))) {
                return row.clone();
            }
            assert!(Instant::now() < deadline, "{rows:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    pub fn send(&self, signal: libc::c_int) {
        // SAFETY: the process is our child and not yet waited for.
        assert_eq!(unsafe { libc::kill(self.process.0.id() as i32, signal) }, 0);
    }

    /// Whether keys go to the program as they are pressed.
    pub fn is_raw(&self) -> bool {
        settings_of(&self.far_end).c_lflag & libc::ICANON == 0
    }

    /// Wait for its end.
    pub fn end(mut self) -> Ended {
        let status = self.process.0.wait().unwrap();
        let is_as_before = modes(&settings_of(&self.far_end)) == modes(&self.settings);
        drop(self.far_end);
        self.reader.join().unwrap();
        let output = String::from_utf8(self.output.lock().unwrap().clone()).unwrap();
        let (code, signal) = (status.code(), status.signal());
        Ended { code, signal, stdout: self.result.join().unwrap(), output, is_as_before }
    }
}

/// What a terminal that got `output` shows: it knows texts, moves of the cursor, and clearing.
fn rows(output: &str) -> Vec<String> {
    let blank = || vec![vec![' '; COLUMNS]; ROWS];
    let (mut cells, mut row, mut column) = (blank(), 0, 0);
    let mut letters = output.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                let mut order = String::new();
                for letter in letters.by_ref() {
                    order.push(letter);
                    if letter.is_ascii_alphabetic() {
                        break;
                    }
                }
                match order.trim_start_matches('[') {
                    "?1049h" | "2J" => cells = blank(),
                    place if place.ends_with('H') => {
                        let mut numbers =
                            place.trim_end_matches('H').split(';').map(|word| word.parse().unwrap_or(1));
                        let mut next = || numbers.next().unwrap_or(1_usize) - 1;
                        (row, column) = (next(), next());
                    }
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            letter => {
                if let Some(cell) = cells.get_mut(row).and_then(|cells: &mut Vec<char>| cells.get_mut(column))
                {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
}
