//! The two sides of a duel.

use serde::Serialize;

/// Which of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Base,
    Head,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::Base, Side::Head];

    pub fn name(self) -> &'static str {
        match self {
            Side::Base => "base",
            Side::Head => "head",
        }
    }

    pub fn other(self) -> Side {
        match self {
            Side::Base => Side::Head,
            Side::Head => Side::Base,
        }
    }
}

/// One value for each side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sides<T> {
    pub base: T,
    pub head: T,
}

impl<T> Sides<T> {
    pub fn of(&self, side: Side) -> &T {
        match side {
            Side::Base => &self.base,
            Side::Head => &self.head,
        }
    }

    pub fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Base => &mut self.base,
            Side::Head => &mut self.head,
        }
    }

    /// What `make` returns for each side, base first.
    pub fn each(mut make: impl FnMut(Side) -> T) -> Sides<T> {
        Sides { base: make(Side::Base), head: make(Side::Head) }
    }

    /// The same, unless one fails.
    pub fn try_each<E>(mut make: impl FnMut(Side) -> Result<T, E>) -> Result<Sides<T>, E> {
        Ok(Sides { base: make(Side::Base)?, head: make(Side::Head)? })
    }

    /// What `make` returns for the value of each side.
    pub fn map<'a, U>(&'a self, mut make: impl FnMut(&'a T) -> U) -> Sides<U> {
        Sides { base: make(&self.base), head: make(&self.head) }
    }
}
