//! A scope lends a model, or a set, for a lifetime of its own. So a program cannot exchange it for what another scope lends,
//! which ends earlier: such programs do not compile. Each pair here differs in one line.

/// Models that read on a thread of their own.
///
/// ```
/// use eyelet::{device::Inline, executor::Instance, storage::Slice};
///
/// fn nested<'a>(one: &mut Instance<'a>, two: &mut Instance<'a>, a: &mut Slice<'a>, b: &mut Slice<'a>) {
///     one.with_loader(a, |outer| {
///         two.with_loader(b, |inner| {
///             inner.infer(&Inline).unwrap();
///         }).unwrap();
///         outer.infer(&Inline).unwrap();
///     }).unwrap();
/// }
/// ```
///
/// ```compile_fail,E0521
/// use eyelet::{device::Inline, executor::Instance, storage::Slice};
///
/// fn nested<'a>(one: &mut Instance<'a>, two: &mut Instance<'a>, a: &mut Slice<'a>, b: &mut Slice<'a>) {
///     one.with_loader(a, |outer| {
///         two.with_loader(b, |inner| {
///             std::mem::swap(outer, inner);
///         }).unwrap();
///         outer.infer(&Inline).unwrap();
///     }).unwrap();
/// }
/// ```
#[cfg(all(feature = "linux", target_os = "linux"))]
pub struct Loaders;

/// Models whose reads go on while steps compute.
///
/// ```
/// use eyelet::{device::Inline, executor::Instance, storage::Slice};
///
/// fn nested<'a>(one: &mut Instance<'a>, two: &mut Instance<'a>, a: &mut Slice<'a>, b: &mut Slice<'a>) {
///     one.overlapped(a, |outer| {
///         two.overlapped(b, |inner| {
///             inner.infer(&Inline).unwrap();
///         });
///         outer.infer(&Inline).unwrap();
///     });
/// }
/// ```
///
/// ```compile_fail,E0521
/// use eyelet::{device::Inline, executor::Instance, storage::Slice};
///
/// fn nested<'a>(one: &mut Instance<'a>, two: &mut Instance<'a>, a: &mut Slice<'a>, b: &mut Slice<'a>) {
///     one.overlapped(a, |outer| {
///         two.overlapped(b, |inner| {
///             std::mem::swap(outer, inner);
///         });
///         outer.infer(&Inline).unwrap();
///     });
/// }
/// ```
pub struct Overlapped;

/// Sets at work.
///
/// ```
/// use eyelet::{device::Inline, set::{Host, TaskSet}, storage::Slice};
///
/// type Set<'t, 'a> = TaskSet<'t, 'a, Slice<'a>, 2>;
///
/// fn nested<'t, 'a>(one: &mut Set<'t, 'a>, two: &mut Set<'t, 'a>, a: &mut dyn Host, b: &mut dyn Host) {
///     one.run(&Inline, &|| 0, a, |outer| {
///         two.run(&Inline, &|| 0, b, |inner| {
///             inner.step();
///         });
///         outer.step();
///     });
/// }
/// ```
///
/// ```compile_fail,E0521
/// use eyelet::{device::Inline, set::{Host, TaskSet}, storage::Slice};
///
/// type Set<'t, 'a> = TaskSet<'t, 'a, Slice<'a>, 2>;
///
/// fn nested<'t, 'a>(one: &mut Set<'t, 'a>, two: &mut Set<'t, 'a>, a: &mut dyn Host, b: &mut dyn Host) {
///     one.run(&Inline, &|| 0, a, |outer| {
///         two.run(&Inline, &|| 0, b, |inner| {
///             std::mem::swap(outer, inner);
///         });
///         outer.step();
///     });
/// }
/// ```
pub struct Sets;
