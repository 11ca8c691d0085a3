//! The screen of a load that runs, on the terminal of stderr: its own thread reads the scores and the keys.

use std::io::{self, BufWriter, IsTerminal, Stderr};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::drawing::draw;
use crate::trail::{LOOKS_PER_SECOND, Trail};
use engine::scoreboard::Scoreboards;
use machine::{signals, terminal};
use text::failure::Failure;

/// A screen that is over ends after this at most.
const KEYS_EVERY: Duration = Duration::from_millis(50);
const LOOKS_EVERY: Duration = Duration::from_millis(1000 / LOOKS_PER_SECOND as u64);

/// A screen; the terminal is as it was before when it is dropped, and after a panic or a second signal, too.
pub struct Screen {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Show the loads of `scoreboards` until it is dropped. A failure when stderr is no terminal.
    pub fn begin(scoreboards: Arc<Scoreboards>) -> Result<Screen, Failure> {
        if !io::stderr().is_terminal() {
            return Err(Failure::usage(
                "--live is given without a terminal on stderr",
                "leave it out; --prometheus shows a load that runs, too",
            ));
        }
        let page = open().map_err(|error| {
            close();
            Failure::run(format!("cannot draw on the terminal ({error})"), "leave --live out")
        })?;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_left = is_over.clone();
        let thread = thread::spawn(move || show(page, &scoreboards, &is_left));
        Ok(Screen { is_over, thread: Some(thread) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
        close();
    }
}

/// Each page is written at once.
type Page = Terminal<CrosstermBackend<BufWriter<Stderr>>>;

const PAGE_BYTES: usize = 64 * 1024;

fn open() -> io::Result<Page> {
    terminal::remember()?;
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        close();
        usual(panic);
    }));
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen, Hide)?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(PAGE_BYTES, io::stderr())))
}

/// What cannot be brought back cannot be told of, either.
fn close() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
}

fn show(mut page: Page, scoreboards: &Scoreboards, is_over: &AtomicBool) {
    let (mut trail, mut due): (Option<Trail>, _) = (None, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        heed_keys();
        if Instant::now() < due {
            continue;
        }
        due = Instant::now() + LOOKS_EVERY;
        if let Some(latest) = scoreboards.latest().filter(|latest| !trail.iter().any(|it| it.is_of(latest))) {
            trail = Some(Trail::new(latest));
        }
        let picture = trail.as_mut().and_then(Trail::look);
        // The load goes on if the terminal has been closed.
        if page.draw(|frame| draw(frame, picture.as_ref())).is_err() {
            break;
        }
    }
}

/// Wait a moment for a key, and interrupt the run if it is one that does.
fn heed_keys() {
    match event::poll(KEYS_EVERY) {
        Ok(false) => {}
        Ok(true) => {
            if event::read().is_ok_and(|event| is_interrupt(&event)) {
                signals::interrupt();
            }
        }
        Err(_) => thread::sleep(KEYS_EVERY),
    }
}

/// `q`, and what the terminal would make a signal of.
fn is_interrupt(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && matches!((key.code, is_control), (KeyCode::Char('q'), false) | (KeyCode::Char('c'), true))
}
