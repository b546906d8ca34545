import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Stores that answer 403 for missing objects to credentials that may not list.
extension SwiftStore {
    /// Whether a HEAD has shown that there is no object. A 403 shows it where the credentials may read, may not list, and get 403
    /// for an object that certainly does not exist.
    func isMissing(_ key: ObjectKey, _ error: ObjectStoreError) async -> Bool {
        if error.kind == .notFound { return true }
        guard error.kind == .accessDenied, error.status == 403 else { return false }
        do throws(ObjectStoreError) { _ = try await listed(key) } catch {
            guard error.kind == .accessDenied else { return false }
            if let known = learned.withLock({ $0.hidesMissing }) { return known }
            guard let answer = try? await hidesMissing(for: key) else { return false }
            learned.withLock { $0.hidesMissing = answer }
            return answer
        }
        return false
    }

    /// Makes and deletes an object with a name that no other client has: a HEAD before and one after show the meaning of a 403.
    private func hidesMissing(for key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        let name = segments.area + ByteString("probe-" + RandomID.hex())
        func probe(_ method: HTTPMethod) -> Call { call(.head, method, segment: name, for: key) }
        func isRefused() async throws(ObjectStoreError) -> Bool {
            do throws(ObjectStoreError) { try await send(probe(.head)) } catch {
                guard error.kind == .accessDenied else { throw error }
                return true
            }
            return false
        }
        guard try await isRefused() else { return false }
        try await send(probe(.put), body: MemorySource([]))
        let mayRead = try await !isRefused()
        _ = try? await send(probe(.delete))
        return mayRead
    }
}
