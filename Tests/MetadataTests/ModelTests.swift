import Testing

/// Random interleavings of remote changes, requests in flight and our own changes, against what the bucket really held.
///
/// The reference keeps every state each key ever had. What the cache says must be one of them that is not older than our
/// own last change; said to be fresh, one that held within the last ttl. Pending changes are seen at once and always.
@Suite struct ModelTests {
    @Test(arguments: 0..<6) func cacheNeverSaysWhatWasNotTrue(_ seed: UInt64) throws {
        var model = try CacheModel(seed: seed)
        for step in 0..<250 {
            let action = try model.act()
            do {
                try model.check()
            } catch {
                Issue.record("seed \(seed), step \(step), \(action): \(error)\n\(model.log.joined(separator: "\n"))")
                return
            }
        }
    }
}
