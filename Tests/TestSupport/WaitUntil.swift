package import Testing

/// Waits until `condition` holds, with `step` before each look after the first, and fails the test where it does not hold in time.
///
/// The condition is asked no more once it has held: one that opens and reads a file takes long beside other tests.
package func waitUntil(
    _ what: String, _ step: () -> Void = {}, sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    for _ in 0..<20_000 {
        if try await condition() { return }
        step()
        try await Task.sleep(for: .milliseconds(1))
    }
    Issue.record("in vain it was waited until \(what)", sourceLocation: sourceLocation)
    throw WaitedInVain()
}

private struct WaitedInVain: Error {}
