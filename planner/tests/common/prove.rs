//! What the runtime says of a plan that is in no file.
#![allow(dead_code)]

use super::Subject;
use eyelet::executor::STEP_WORK;
use eyelet::pack::{Flaw, PlanView, Skeleton};
use eyelet::proof::{Bounds, Proven, ProvenSkeleton};
use eyelet_planner::plan::Plan;
use eyelet_planner::tables;

/// As aligned as the runtime has it.
pub fn aligned(bytes: &[u8]) -> Vec<u32> {
    assert_eq!(bytes.len() % 4, 0);
    let mut words = vec![0u32; bytes.len() / 4];
    bytemuck::cast_slice_mut(&mut words).copy_from_slice(bytes);
    words
}

/// The skeleton of its packs.
pub fn skeleton(subject: &Subject) -> Vec<u32> {
    aligned(&tables::skeleton(&subject.network).unwrap())
}

/// What the runtime says of a plan.
pub fn prove(subject: &Subject, skeleton: &[u32], plan: &Plan) -> Result<(), Flaw> {
    prove_and(subject, skeleton, plan, |_| ())
}

/// Has the runtime prove a plan, and asks something of the proof.
pub fn prove_and<T>(
    subject: &Subject,
    skeleton: &[u32],
    plan: &Plan,
    ask: impl FnOnce(&Proven<'_>) -> T,
) -> Result<T, Flaw> {
    let stored = aligned(&tables::plan(plan, |_| 0)?);
    let view = PlanView::view(bytemuck::cast_slice(&stored))?;
    let bounds = Bounds {
        tables: plan.tables,
        arena: plan.arena_bytes,
        fast: plan.fast_bytes,
        threads: plan.threads,
        step_work: STEP_WORK,
        effort: Bounds::effort_for(0, 1),
        mapped: subject.network.mapped.is_some(),
    };
    let skeleton = Skeleton::view(bytemuck::cast_slice(skeleton)).unwrap();
    let network = ProvenSkeleton::new(skeleton, subject.isa(), subject.weights_bytes).unwrap();
    Proven::new(&network, view, bounds).map(|proven| ask(&proven))
}
