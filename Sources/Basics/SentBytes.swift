import Synchronization

/// How many bytes of a request's body the other end has acknowledged, for displays.
///
/// Belongs to the sender of the request, who sets it for the task; the transport raises it on its own thread, and any thread may
/// read it. A request that is sent again starts from zero on the wire, but not here: the value is the most that one try has
/// reached.
package final class SentBytes: Sendable {
    /// Of the request that this task sends.
    @TaskLocal package static var current: SentBytes?

    private let most = Atomic<Int64>(0)

    package init() {}

    package var value: Int64 { most.load(ordering: .relaxed) }

    /// A try has reached so many bytes.
    package func reach(_ bytes: Int64) { most.max(bytes, ordering: .relaxed) }

    /// Counts the body of the request that `send` makes, with its repetitions.
    package func count<Value: Sendable, Failure>(
        _ send: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result: Result<Value, Failure> = await Self.$current.withValue(self) {
            do throws(Failure) { return .success(try await send()) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
