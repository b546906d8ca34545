import ObjectStorage

extension ObjectStore {
    /// Deletes objects by a request for each, eight at a time. Returns the errors of those that remain; throws when it is
    /// cancelled.
    func deleteOneByOne(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        try await concurrently(keys, width: 8) { [self] key throws(ObjectStoreError) -> ObjectStoreError? in
            do throws(ObjectStoreError) {
                try await delete(key, ifMatch: nil)
                return nil
            } catch {
                if error.kind == .cancelled { throw error }
                return error
            }
        }.compactMap(\.self)
    }
}
