//! How much one client may ask: a bucket of tokens each, in a table that does not grow.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::config::Rate;

/// Clients that are told apart; those beyond share one bucket.
const MAX_CLIENTS: usize = 4096;
/// The bucket of those who are not told apart.
const OTHERS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

/// What is left to whom.
#[derive(Debug)]
pub(super) struct Buckets {
    rate: Rate,
    clients: BTreeMap<IpAddr, Bucket>,
    swept: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Since when there would be a token left if none had been taken: full when that is long ago.
    empty_since: Instant,
}

impl Buckets {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            clients: BTreeMap::new(),
            swept: None,
        }
    }

    /// Takes a client's token; false if there is none.
    pub(super) fn take(&mut self, client: IpAddr, now: Instant) -> bool {
        let client = client.to_canonical();
        let (per_token, full) = (self.per_token(), self.full());
        let key = self.key(client, now);
        let oldest = now.checked_sub(full).unwrap_or(now);
        let bucket = self.clients.entry(key).or_insert(Bucket {
            empty_since: oldest,
        });
        let taken = bucket.empty_since.max(oldest) + per_token;
        if taken > now {
            return false;
        }
        bucket.empty_since = taken;
        true
    }

    fn key(&mut self, client: IpAddr, now: Instant) -> IpAddr {
        if self.clients.contains_key(&client) || self.clients.len() < MAX_CLIENTS {
            return client;
        }
        let full = self.full();
        if self
            .swept
            .is_none_or(|at| now - at > Duration::from_secs(1))
        {
            self.swept = Some(now);
            // A full bucket is the same as none.
            self.clients
                .retain(|_, bucket| now - bucket.empty_since < full);
        }
        if self.clients.len() < MAX_CLIENTS {
            client
        } else {
            OTHERS
        }
    }

    fn per_token(&self) -> Duration {
        Duration::from_secs(1) / self.rate.per_second.get()
    }

    fn full(&self) -> Duration {
        self.per_token() * self.rate.burst.get()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn buckets(per_second: u32, burst: u32) -> Buckets {
        Buckets::new(Rate {
            per_second: NonZeroU32::new(per_second).unwrap(),
            burst: NonZeroU32::new(burst).unwrap(),
        })
    }

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_gets_its_burst_at_once_and_then_its_rate() {
        let mut buckets = buckets(10, 5);
        let start = Instant::now();
        let taken =
            |buckets: &mut Buckets, now| (0..100).filter(|_| buckets.take(client(1), now)).count();
        assert_eq!(taken(&mut buckets, start), 5);
        assert_eq!(taken(&mut buckets, start + Duration::from_millis(300)), 3);
        assert_eq!(taken(&mut buckets, start + Duration::from_mins(1)), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_takes_nothing_from_another() {
        let mut buckets = buckets(1, 1);
        let now = Instant::now();
        assert!(buckets.take(client(1), now));
        assert!(!buckets.take(client(1), now));
        assert!(buckets.take(client(2), now));
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_stays_small_and_forgets_who_is_quiet() {
        let mut buckets = buckets(1, 2);
        let now = Instant::now();
        let admitted = (1..50_000)
            .filter(|n| buckets.take(client(*n), now))
            .count();
        assert!(buckets.clients.len() <= MAX_CLIENTS + 1);
        assert_eq!(admitted, MAX_CLIENTS + 2, "the rest shared one bucket");
        let later = now + Duration::from_secs(10);
        assert!(buckets.take(client(60_000), later));
        assert!(buckets.clients.contains_key(&client(60_000)));
        assert!(buckets.clients.len() < 3);
    }
}
