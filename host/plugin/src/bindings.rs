//! What `wit/` becomes in Rust, seen from the host. One internal world exports every role and form, so that each role
//! has its own `GuestIndices`; no component is ever asked for the whole world.
//!
//! Parameters of guest functions borrow, so that a batch crosses without a copy on this side; results are owned.

#![allow(
    missing_docs,
    unused_variables,
    dead_code,
    reason = "generated from the WIT package, which documents it"
)]

wasmtime::component::bindgen!({
    path: "../../wit",
    inline: "
        package loom:host;
        world every-role {
            import loom:plugin/context@0.1.0;
            import loom:plugin/log@0.1.0;
            import loom:plugin/delivery@0.1.0;
            export loom:plugin/setup@0.1.0;
            export loom:plugin/step@0.1.0;
            export loom:plugin/expand@0.1.0;
            export loom:plugin/batch-step@0.1.0;
            export loom:plugin/batch-expand@0.1.0;
            export loom:plugin/typed-expand@0.1.0;
            export loom:plugin/selector@0.1.0;
            export loom:plugin/partitioner@0.1.0;
            export loom:plugin/predicate@0.1.0;
            export loom:plugin/sink@0.1.0;
            export loom:plugin/column-step@0.1.0;
            export loom:plugin/column-expand@0.1.0;
            export loom:plugin/column-predicate@0.1.0;
        }
    ",
    world: "loom:host/every-role",
    ownership: Borrowing { duplicate_if_necessary: true },
    with: { "loom:plugin/delivery.commit-tracker": crate::delivery::Tracker },
    imports: { default: trappable },
});

/// The same world with calls that can be waited for, for instances that run beside the worker. Types are those above.
pub(crate) mod waiting {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "
            package loom:host;
            world every-waiting-role {
                import loom:plugin/context@0.1.0;
                import loom:plugin/log@0.1.0;
                import loom:plugin/delivery@0.1.0;
                export loom:plugin/setup@0.1.0;
                export loom:plugin/step@0.1.0;
                export loom:plugin/expand@0.1.0;
                export loom:plugin/batch-step@0.1.0;
                export loom:plugin/batch-expand@0.1.0;
                export loom:plugin/typed-expand@0.1.0;
                export loom:plugin/selector@0.1.0;
                export loom:plugin/partitioner@0.1.0;
                export loom:plugin/predicate@0.1.0;
                export loom:plugin/sink@0.1.0;
                export loom:plugin/column-step@0.1.0;
                export loom:plugin/column-expand@0.1.0;
                export loom:plugin/column-predicate@0.1.0;
            }
        ",
        world: "loom:host/every-waiting-role",
        ownership: Borrowing { duplicate_if_necessary: true },
        with: {
            "loom:plugin/types@0.1.0": crate::bindings::loom::plugin::types,
            "loom:plugin/columns@0.1.0": crate::bindings::loom::plugin::columns,
            "loom:plugin/context@0.1.0": crate::bindings::loom::plugin::context,
            "loom:plugin/log@0.1.0": crate::bindings::loom::plugin::log,
            "loom:plugin/delivery@0.1.0": crate::bindings::loom::plugin::delivery,
        },
        imports: { default: trappable },
        exports: { default: async },
    });
}
