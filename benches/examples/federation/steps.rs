//! The measurement: its steps, one after the other.

use anyhow::Result;

use crate::cases::{Clusters, Step};

/// How many of what.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) members: usize,
    pub(crate) grids: usize,
}

/// Every step in its order.
pub(crate) struct Steps {
    pub(crate) start: Step,
    pub(crate) create: Step,
    pub(crate) idle: Step,
    pub(crate) change: Step,
    pub(crate) cut: Step,
    pub(crate) heal: Step,
}

pub(crate) async fn measure(size: Size) -> Result<Steps> {
    eprintln!("{} members join …", size.members);
    let (clusters, start) = Clusters::start(size.members).await?;
    eprintln!("{} grids are created …", size.grids);
    let create = clusters.create(size.grids).await?;
    eprintln!("nothing happens …");
    let idle = clusters.idle().await?;
    eprintln!("a grid changes …");
    let change = clusters.change().await?;
    eprintln!("a member is cut off …");
    let cut = clusters.cut().await?;
    eprintln!("it is back …");
    let heal = clusters.heal().await?;
    Ok(Steps {
        start,
        create,
        idle,
        change,
        cut,
        heal,
    })
}
