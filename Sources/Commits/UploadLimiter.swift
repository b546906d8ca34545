import Basics

/// Bounds the transfers in flight for a whole mount. First come, first served; waiting ends with its task.
package final class UploadLimiter: Sendable {
    // A memory budget is a fair semaphore with cancellation; a slot is a unit of it.
    private let slots: MemoryBudget

    package init(limit: Int) { slots = MemoryBudget(limit: max(limit, 1)) }

    /// Slots taken now.
    package var used: Int { slots.used }

    /// Takes a slot, waiting for one.
    package func acquire() async throws(CancellationError) { try await slots.reserve(1) }

    /// Gives a slot back.
    package func release() { slots.release(1) }
}
