//! Views of a load while it runs: the screen of `--live`. It reads the scores that the threads of the
//! load publish; no thread of the load waits for them.

mod drawing;
mod screen;
mod trail;

use std::sync::Arc;

use engine::scoreboard::Scoreboards;
use screen::Screen;
use text::failure::Failure;

/// The views of a run; the screen goes when they are dropped.
pub struct Views {
    scoreboards: Option<Arc<Scoreboards>>,
    _screen: Option<Screen>,
}

impl Views {
    /// Begin a screen, if `is_live`. A failure when it is impossible.
    pub fn begin(is_live: bool) -> Result<Views, Failure> {
        let scoreboards = is_live.then(Arc::<Scoreboards>::default);
        let screen = scoreboards.clone().map(Screen::begin).transpose()?;
        Ok(Views { scoreboards, _screen: screen })
    }

    /// Where loads publish their progress; none without a view.
    pub fn scoreboards(&self) -> Option<Arc<Scoreboards>> {
        self.scoreboards.clone()
    }
}
