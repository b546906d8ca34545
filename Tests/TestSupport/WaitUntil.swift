package import Testing

/// Waits until `condition` holds, and fails the test if it never does. `step` runs after each check that fails.
///
/// Returns at the first check that holds: a condition that opens and reads a file is slow while other tests run.
package func waitUntil(
    _ what: String, _ step: () -> Void = {}, sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    for _ in 0..<20_000 {
        if try await condition() { return }
        step()
        try await Task.sleep(for: .milliseconds(1))
    }
    Issue.record("timed out waiting until \(what)", sourceLocation: sourceLocation)
    throw WaitedInVain()
}

private struct WaitedInVain: Error {}
