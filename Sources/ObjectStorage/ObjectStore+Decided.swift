extension ObjectStore {
    /// The error for a read of `key` that was answered with `refusal`: `.notFound` where a listing shows no such object.
    ///
    /// Stores answer 403 instead of 404 to credentials that may not list the bucket (Amazon S3 API reference, "HeadObject"), and to
    /// those that may list below a prefix only. An answer to HEAD has no error document: where the credentials or the clock are
    /// wrong, the listing's error shows it.
    package func decided(_ refusal: ObjectStoreError, at key: ObjectKey) async -> ObjectStoreError {
        guard refusal.kind == .accessDenied, refusal.status == 403 else { return refusal }
        do throws(ObjectStoreError) {
            if try await listed(key) != nil { return refusal }
            var missing = refusal
            missing.kind = .notFound
            missing.message = "there is no such object (the store answered 403, and a listing does not have the key)"
            return missing
        } catch {
            guard [.credentialsRejected, .credentialsExpired, .clockSkew].contains(error.kind) else { return refusal }
            var reason = error
            (reason.operation, reason.key) = (refusal.operation, refusal.key)
            return reason
        }
    }
}
