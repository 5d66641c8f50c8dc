//! Random lives of a set: what users, nodes, the network and the controller itself may do.

use proptest::prelude::*;

/// The life of one set.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) is_parallel: bool,
    pub(crate) has_claims: bool,
    pub(crate) history_limit: i64,
    pub(crate) steps: Vec<(Step, u64)>,
}

/// Something that happens, after so many milliseconds.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Scale(i64),
    Image(u8),
    Partition(i64),
    MaxUnavailable(i64),
    MinReady(i64),
    Start(i64),
    OnDelete(bool),
    Retention(bool, bool),
    KeepUnready(i64),
    Stall(i64),
    Unblock,
    Unready(i64),
    Ready(i64),
    Fail(i64, bool),
    Delete(i64),
    Stray(i64),
    Return,
    Write(WriteFault, usize),
    Watch(u8),
    Crash {
        nth: usize,
        is_after: bool,
        down: u64,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum WriteFault {
    LoseRequest,
    LoseAnswer,
    Conflict,
    Hang,
}

pub(crate) fn life() -> impl Strategy<Value = Life> {
    let step = (
        step(),
        prop_oneof![3 => 1_u64..50, 3 => 50_u64..3000, 1 => 3000_u64..60_000],
    );
    let steps = prop::collection::vec(step, 1..40);
    (any::<bool>(), any::<bool>(), 0_i64..4, steps).prop_map(
        |(is_parallel, has_claims, history_limit, steps)| Life {
            is_parallel,
            has_claims,
            history_limit,
            steps,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let user = prop_oneof![
        4 => (0_i64..6).prop_map(Step::Scale),
        4 => (0_u8..4).prop_map(Step::Image),
        1 => (0_i64..5).prop_map(Step::Partition),
        1 => (1_i64..4).prop_map(Step::MaxUnavailable),
        1 => prop_oneof![Just(0_i64), Just(7)].prop_map(Step::MinReady),
        1 => (0_i64..3).prop_map(Step::Start),
        1 => any::<bool>().prop_map(Step::OnDelete),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Step::Retention(a, b)),
    ];
    let ordinal = 0_i64..7;
    let pods = prop_oneof![
        1 => ordinal.clone().prop_map(Step::KeepUnready),
        1 => ordinal.clone().prop_map(Step::Stall),
        1 => Just(Step::Unblock),
        2 => ordinal.clone().prop_map(Step::Unready),
        1 => ordinal.clone().prop_map(Step::Ready),
        2 => (ordinal.clone(), any::<bool>()).prop_map(|(n, is_failed)| Step::Fail(n, is_failed)),
        2 => ordinal.clone().prop_map(Step::Delete),
        1 => ordinal.prop_map(Step::Stray),
        1 => Just(Step::Return),
    ];
    let write_fault = prop_oneof![
        Just(WriteFault::LoseRequest),
        Just(WriteFault::LoseAnswer),
        Just(WriteFault::Conflict),
        Just(WriteFault::Hang),
    ];
    let crash = (1_usize..6, any::<bool>(), 1_u64..5000);
    let faults = prop_oneof![
        4 => (write_fault, 1_usize..4).prop_map(|(fault, nth)| Step::Write(fault, nth)),
        1 => (0_u8..3).prop_map(Step::Watch),
        3 => crash.prop_map(|(nth, is_after, down)| Step::Crash { nth, is_after, down }),
    ];
    prop_oneof![4 => user, 4 => pods, 3 => faults]
}
