package import Basics
package import Testing

/// Runs a test on threads of its own. On the common ones, between the other tests, a test that gives way a thousand times would
/// wait a thousand times until one of them does the same.
package struct OwnThreads: TestTrait, SuiteTrait, TestScoping {
    /// Where a test that begins tasks of its own has them run, since they take no preference from it.
    package static let pool = WorkerPool(threads: 2, name: "own")
    /// For tests that keep a thread for themselves, as a SeededScheduler does while it runs. One, so that a processor is left for the
    /// others.
    private static let seeds = WorkerPool(threads: 1, name: "seeds")

    private let threads: WorkerPool

    package init() { threads = Self.pool }

    fileprivate init(seeds: Void) { threads = Self.seeds }

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(threads) { try await function() }
    }
}

extension Trait where Self == OwnThreads {
    package static var ownThreads: Self { OwnThreads() }
    /// For tests that run a SeededScheduler.
    package static var seedThreads: Self { OwnThreads(seeds: ()) }
}
