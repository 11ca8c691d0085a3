//! Views of a load while it runs: the screen of `--live`, and the metrics that `--prometheus` serves. Both read the scores that
//! the threads of the load publish; no thread of the load waits for them.

mod drawing;
mod exporter;
mod metrics;
mod screen;
mod trail;

use std::net::SocketAddr;
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
    /// Begin those that are wanted: a screen, if `is_live`, and metrics at an address. A failure when one is impossible.
    pub fn begin(is_live: bool, metrics_at: Option<SocketAddr>) -> Result<Views, Failure> {
        let is_any = is_live || metrics_at.is_some();
        let scoreboards = is_any.then(Arc::<Scoreboards>::default);
        let (mut screen, seen) = (None, || scoreboards.clone().unwrap_or_default());
        if let Some(address) = metrics_at {
            exporter::begin(address, seen())?;
        }
        if is_live {
            screen = Some(Screen::begin(seen())?);
        }
        Ok(Views { scoreboards, _screen: screen })
    }

    /// Where loads publish their progress; none without a view.
    pub fn scoreboards(&self) -> Option<Arc<Scoreboards>> {
        self.scoreboards.clone()
    }
}
